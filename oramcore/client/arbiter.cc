// Disputes about an eviction: finds out who lied, and which share of the path is wrong.
#include "oramcore/client/arbiter.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/client/agreement.h"

namespace s3oram {
namespace {

// The largest number of bytes of shares in memory at a time. If a path has more, no server is
// named.
constexpr std::size_t kMostShares = std::size_t{256} << 20;

}  // namespace

Task<Status> Arbiter::after_disagreement(Error found, std::optional<Dispute> dispute, bool last) {
  if (dispute) {
    S3O_CO_ASSIGN(const Party liar, co_await find_liar(std::move(*dispute)));
    if (liar != 0) found = name_liar(liar, found);
  }
  if (last) co_return fail(std::move(found));
  // The next attempt shows whether the path is sound, so a server that refuses the comparison ends
  // nothing.
  if (auto settled = co_await settle_path(); !settled && !state_.dead)
    spdlog::warn("the path of eviction {} could not be compared: {}", state_.tree.tree_version,
                 settled.error().message);
  if (state_.dead) co_return fail(*state_.dead);
  co_return Status{};
}

/// Reads all servers' shares of the path, which show what each server had to send. Returns 0 if
/// nobody can be named. If shares contradict each other, the comparison that follows names the
/// server of the wrong one.
Task<Result<Party>> Arbiter::find_liar(Dispute dispute) {
  const PathSlots path =
      PathSlots::evicted(state_.params, state_.tree.tree_version, state_.tree.height);
  const std::size_t enough = state_.params.enough();
  if (!dispute.check->can_find_liar() ||
      enough * path.count() * state_.params.slot_size() > kMostShares)
    co_return Party{0};
  co_await turn_.await_end();
  if (state_.dead) co_return fail(*state_.dead);
  co_await turn_.begin();
  PathShares shares(enough, std::vector<Bytes>(path.count()));
  const bool fit =
      co_await read_path_shares(slots_.on_path(path, state_.tree.tree_version), shares);
  turn_.end();
  if (state_.dead) co_return fail(*state_.dead);
  if (!fit || state_.contents.changed != dispute.contents) co_return Party{0};
  co_return co_await offload(state_.environment.pool,
                             [&] { return dispute.check->find_liar(dispute.reports, shares); });
}

/// Reads the slots into `shares`. Returns false if a share cannot be read, or if a slot's shares do
/// not lie on one polynomial.
Task<bool> Arbiter::read_path_shares(std::vector<SlotAddress> slots, PathShares& shares) {
  std::size_t next = 0;
  std::vector<Task<bool>> readers;
  for (std::size_t i = 0; i < slots_.at_once(); ++i)
    readers.push_back(read_shares_from(next, slots, shares));
  const auto ended = co_await all(std::move(readers));
  co_return std::ranges::all_of(ended, [](bool fit) { return fit; });
}

/// Takes one slot after the other until there are none left.
Task<bool> Arbiter::read_shares_from(std::size_t& next, const std::vector<SlotAddress>& slots,
                                     PathShares& shares) {
  const Bytes servers = state_.in_step.members();
  bool fit = true;
  while (next < slots.size() && !state_.dead) {
    const std::size_t at = next++;
    const auto answers = co_await slots_.read(slots[at], servers);
    std::vector<ByteSpan> read;
    for (const auto& answer : answers)
      if (answer && answer->body().size() == state_.params.slot_size())
        read.push_back(answer->body());
    if (read.size() < servers.size() || !on_one_polynomial(state_.params.enough(), servers, read)) {
      fit = false;
      continue;
    }
    for (std::size_t i = 0; i < shares.size(); ++i)
      shares[i][at].assign(read[i].begin(), read[i].end());
  }
  co_return fit;
}

/// Names the liar in the log and in the status.
Error Arbiter::name_liar(Party liar, const Error& found) {
  Error named{Errc::servers_disagree,
              fmt::format("server {} is faulty or lies ({})", liar, found.message)};
  spdlog::error("eviction {}: {}", state_.tree.tree_version, named.message);
  state_.servers.troubles().lied(liar, named, state_.now());
  return named;
}

/// Compares the servers' shares of the whole path by digests. A share that is wrong under a right
/// checksum would spoil every attempt; it is replaced, and its server is named in the log.
Task<Status> Arbiter::settle_path() {
  co_await turn_.await_end();
  if (state_.dead) co_return fail(*state_.dead);
  co_await turn_.begin();
  Status settled;
  const Bytes servers = state_.in_step.members();
  for (unsigned level = 0; settled && !state_.dead && level <= state_.tree.height; ++level)
    settled = co_await settler_.compare(bucket_on_path(state_.tree.tree_version, level), servers);
  turn_.end();
  if (state_.dead) co_return fail(*state_.dead);
  co_return settled;
}

}  // namespace s3oram
