// Disputes about an eviction: finds out who lied, and which share of the path is wrong.
#include "oramcore/client/arbiter.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>

#include "oramcore/client/agreement.h"

namespace s3oram {
namespace {

// The largest number of bytes of shares in memory at a time. If a path has more, no server is
// named.
constexpr std::size_t kMostShares = std::size_t{256} << 20;

}  // namespace

/// What the servers show of a path.
struct Arbiter::PathRead {
  PathShares shares;                      // the right ones, where they are known
  std::vector<SlotAddress> unknown;       // slots of which nothing shows which shares are right
  std::vector<SlotAddress> contradicted;  // slots whose shares do not fit together
  std::map<Party, std::string> wrong, hidden;  // servers with a wrong share, or none, and where
};

Task<Status> Arbiter::after_disagreement(Error found, std::optional<Dispute> dispute, bool last) {
  if (dispute) {
    S3O_CO_ASSIGN(auto named, co_await find_liar(std::move(*dispute), found));
    if (named) found = std::move(*named);
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

/// Reads all servers' shares of the path, which show what each server had to send. Returns the
/// error that names the liar; std::nullopt if nobody can be named.
Task<Result<std::optional<Error>>> Arbiter::find_liar(Dispute dispute, Error found) {
  const PathSlots path =
      PathSlots::evicted(state_.params, state_.tree.tree_version, state_.tree.height);
  const std::size_t enough = state_.params.enough();
  if (!dispute.check->can_find_liar() ||
      enough * path.count() * state_.params.slot_size() > kMostShares)
    co_return std::optional<Error>();
  co_await turn_.await_end();
  if (state_.dead) co_return fail(*state_.dead);
  co_await turn_.begin();
  PathRead read;
  read.shares.assign(enough, std::vector<Bytes>(path.count()));
  const auto slots = slots_.on_path(path, state_.tree.tree_version);
  auto ended = co_await read_path_shares(slots, read);
  // Whether the shares of a slot open must not show, so it does not matter here.
  const auto marked = std::ranges::find_if(
      read.contradicted, [&](SlotAddress at) { return prover_.stored_bucket(at).has_value(); });
  if (ended && marked != read.contradicted.end()) ended = co_await prover_.name_liars(*marked);
  turn_.end();
  if (state_.dead) co_return fail(*state_.dead);
  if (state_.contents.changed != dispute.contents) co_return std::optional<Error>();
  co_return co_await name_from(std::move(read), std::move(dispute), std::move(found));
}

/// Names the liar in the log and in the status, or the servers that hide shares that would show it.
Task<Result<std::optional<Error>>> Arbiter::name_from(PathRead read, Dispute dispute, Error found) {
  Party liar = 0;
  if (read.unknown.empty())
    liar = co_await offload(state_.environment.pool,
                            [&] { return dispute.check->find_liar(dispute.reports, read.shares); });
  if (liar != 0) co_return std::optional(state_.servers.found_lying(liar, found.message));
  std::optional<Error> named;
  for (const auto& [server, where] : read.wrong)
    named = state_.servers.found_lying(
        server, fmt::format("its share of {} is wrong; {}", where, found.message));
  if (named) co_return named;
  // An honest server may have a damaged slot, so this is no proof.
  for (const auto& [server, where] : read.hidden) {
    Error hides = state_.servers.accuse(
        server, {Errc::servers_disagree,
                 fmt::format("server {} does not show its share of {}, so nobody can find out who "
                             "lied in eviction {} ({})",
                             server, where, state_.tree.tree_version, found.message)});
    if (read.hidden.size() == 1) named = std::move(hides);
  }
  co_return named;
}

Task<Status> Arbiter::read_path_shares(const std::vector<SlotAddress>& slots, PathRead& read) {
  std::size_t next = 0;
  std::vector<Task<Status>> readers;
  for (std::size_t i = 0; i < slots_.at_once(); ++i)
    readers.push_back(read_shares_from(next, slots, read));
  static_cast<void>(co_await all(std::move(readers)));
  co_return state_.dead ? Status(fail(*state_.dead)) : Status();
}

/// Takes one slot after the other until there are none left.
Task<Status> Arbiter::read_shares_from(std::size_t& next, const std::vector<SlotAddress>& slots,
                                       PathRead& read) {
  const Bytes servers = state_.in_step.members();
  while (next < slots.size() && !state_.dead) {
    const std::size_t nth = next++;
    const auto answers = co_await slots_.read(slots[nth], servers);
    if (!state_.dead) take_shares(nth, slots[nth], answers, read);
  }
  co_return Status{};
}

/// Finds out which shares of a slot are right: all, if they lie on one polynomial, or those that
/// open. Notes the other servers.
void Arbiter::take_shares(std::size_t nth, SlotAddress at,
                          const std::vector<Result<Payload>>& answers, PathRead& read) {
  const Bytes servers = state_.in_step.members();
  const std::string where = fmt::format("slot {} of bucket {}", at.slot, at.bucket);
  Bytes showing;
  std::vector<Bytes> shown;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    if (!answers[i]) {
      read.hidden.try_emplace(servers[i], where);
    } else if (answers[i]->body().size() != state_.params.slot_size()) {
      read.wrong.try_emplace(servers[i], where);
    } else {
      showing.push_back(servers[i]);
      shown.emplace_back(answers[i]->body().begin(), answers[i]->body().end());
    }
  }
  if (showing.size() == servers.size() &&
      on_one_polynomial(state_.params.enough(), servers, spans_of(shown))) {
    for (std::size_t i = 0; i < read.shares.size(); ++i) read.shares[i][nth] = std::move(shown[i]);
    return;
  }
  read.contradicted.push_back(at);
  const auto agreement =
      find_agreement(*state_.scheme, state_.params, showing, shown,
                     [&](const Label& label) { return state_.is_resident(label, at); });
  if (!agreement) {
    read.unknown.push_back(at);
    return;
  }
  for (std::size_t i = 0; i < read.shares.size(); ++i)
    read.shares[i][nth] = agreement->share_of(servers[i]);
  for (const Party server : showing)
    if (!agreement->holds(server)) read.wrong.try_emplace(server, where);
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
