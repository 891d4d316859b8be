// What the client does when the check of an eviction fails: it finds out who lied, as far as that
// can be known, and looks at all shares of the path (docs/protocol.md, "The check of a shuffle").
// What servers see of it depends on nothing but that the check failed.
#include <spdlog/spdlog.h>

#include "oramcore/client/engine.h"

namespace s3oram {
namespace {

// Of shares that are kept in memory at a time. Where a path has more, nobody is named.
constexpr std::size_t kMostShares = std::size_t{256} << 20;

}  // namespace

/// Returns the error that ends the eviction if this was the last attempt.
Task<Status> Engine::after_disagreement(Error found, bool last) {
  if (auto dispute = std::exchange(dispute_, std::nullopt)) {
    S3O_CO_ASSIGN(const Party liar, co_await find_liar(std::move(*dispute)));
    if (liar != 0) found = name_liar(liar, found);
  }
  if (last) co_return fail(std::move(found));
  // The next attempt shows whether the path is sound; a server that refuses this ends nothing.
  if (auto settled = co_await settle_path(); !settled && !dead_)
    spdlog::warn("the path of eviction {} could not be compared: {}", tree_.tree_version,
                 settled.error().message);
  if (dead_) co_return fail(*dead_);
  co_return Status{};
}

/// All servers' shares of the path show what each had to send. If some do not fit together, the
/// comparison that follows names their server. Returns 0 if nobody can be named.
Task<Result<Party>> Engine::find_liar(Dispute dispute) {
  const PathSlots path = PathSlots::evicted(params_, tree_.tree_version, tree_.height);
  const std::size_t enough = params_.enough();
  if (!dispute.check->can_find_liar() || enough * path.count() * params_.slot_size() > kMostShares)
    co_return Party{0};
  while (!dead_ && healing_) co_await await_healed();
  if (dead_) co_return fail(*dead_);
  co_await begin_healing();
  PathShares shares(enough, std::vector<Bytes>(path.count()));
  const bool fit = co_await read_path_shares(slots_of(path, tree_.tree_version), shares);
  end_healing();
  if (dead_) co_return fail(*dead_);
  if (!fit || contents_changed_ != dispute.contents) co_return Party{0};
  co_return co_await offload(environment_.pool,
                             [&] { return dispute.check->find_liar(dispute.reports, shares); });
}

/// Whether those of each slot lie on one polynomial.
Task<bool> Engine::read_path_shares(std::vector<SlotAddress> slots, PathShares& shares) {
  std::size_t next = 0;
  std::vector<Task<bool>> readers;
  for (std::size_t i = 0; i < raw_reads_at_once(); ++i)
    readers.push_back(read_shares_from(next, slots, shares));
  const auto ended = co_await all(std::move(readers));
  co_return std::ranges::all_of(ended, [](bool fit) { return fit; });
}

/// Takes one slot after the other, to the end.
Task<bool> Engine::read_shares_from(std::size_t& next, const std::vector<SlotAddress>& slots,
                                    PathShares& shares) {
  const Bytes servers = in_step_.members();
  bool fit = true;
  while (next < slots.size() && !dead_) {
    const std::size_t at = next++;
    const auto answers = co_await read_slot(slots[at], servers);
    std::vector<ByteSpan> read;
    for (const auto& answer : answers)
      if (answer && answer->body().size() == params_.slot_size()) read.push_back(answer->body());
    if (read.size() < servers.size() || !on_one_polynomial(params_.enough(), servers, read)) {
      fit = false;
      continue;
    }
    for (std::size_t i = 0; i < shares.size(); ++i)
      shares[i][at].assign(read[i].begin(), read[i].end());
  }
  co_return fit;
}

/// In the log and in the status.
Error Engine::name_liar(Party liar, const Error& found) {
  Error named{Errc::servers_disagree,
              fmt::format("server {} is faulty or lies ({})", liar, found.message)};
  spdlog::error("eviction {}: {}", tree_.tree_version, named.message);
  servers_.troubles().failed(liar, MessageType::certify, named, environment_.clock.now());
  return named;
}

}  // namespace s3oram
