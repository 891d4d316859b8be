// Implements what Attendance and CatchUp need from the parts of an engine.
#include "oramcore/client/returning_servers.h"

namespace s3oram {

ReturningServers::ReturningServers(VolumeState& state, Committer& committer, SlotShares& slots,
                                   HealingTurn& turn, Settler& settler, Healer& healer,
                                   RootWriter& root_writer, EvictionGate& gate)
    : state_(state),
      committer_(committer),
      slots_(slots),
      turn_(turn),
      settler_(settler),
      healer_(healer),
      root_writer_(root_writer),
      gate_(gate),
      attendance_(state.environment.clock, state.servers, state.in_step, attendance_owner()),
      catch_up_(state.environment, state.params, state.servers, state.in_step, catch_up_owner()) {}

Attendance::Owner ReturningServers::attendance_owner() {
  return {.commit = [this] { return commit_left_out(); },
          .catch_up = [this](Party server) { return catch_up(server); },
          .start = [this](Task<void> task) { state_.start(std::move(task)); }};
}

CatchUp::Owner ReturningServers::catch_up_owner() {
  return {.hold_evictions = [this] { return gate_.hold(); },
          .let_evict = [this] { gate_.release(); },
          .tree = [this]() -> const TreeState& { return state_.tree; },
          .root = [this] { return state_.acknowledged_root(committer_.durable().tree_version); },
          .await_writes = [this] { return root_writer_.await_begun(); },
          .copy_some = [this](Party server) { return copy_some(server); }};
}

Task<Status> ReturningServers::commit_left_out() {
  state_.pending.left_out = state_.in_step.left_out();
  if (state_.pending.left_out->empty()) state_.forget_rewritten();
  co_return co_await committer_.commit_until_done();
}

Task<Status> ReturningServers::catch_up(Party server) {
  S3O_CO_TRY(co_await catch_up_.run(server, state_.session));
  co_return co_await committer_.forget_older_sessions();
}

/// Lets callers that wait to decide something, or have found damage, go first.
Task<Result<std::size_t>> ReturningServers::copy_some(Party server) {
  co_await turn_.await_turn();
  if (state_.dead) co_return fail(*state_.dead);
  co_await turn_.begin();
  auto copied = co_await copy_damage(server);
  turn_.end();
  if (state_.dead) co_return fail(*state_.dead);
  co_return copied;
}

Task<Result<std::size_t>> ReturningServers::copy_damage(Party server) {
  const DamageRequest request{state_.session.epoch, state_.tree.tree_version, state_.tree.written};
  Healer::Damage damage;
  const std::set<Party> asked{server};
  S3O_CO_TRY(co_await healer_.add_damage(DamageRequest::kType, encode(request), asked, damage));
  const std::size_t slots = damage.size();
  std::set<BucketIndex> buckets;
  for (const auto& [at, servers] : damage) buckets.insert(at.bucket);
  if (slots == 0) buckets = state_.rewritten;  // before the server counts as in step
  const std::uint64_t lost = slots_.so_far().lost;
  S3O_CO_TRY(co_await healer_.heal_slots(std::move(damage), Healer::Loss::left));
  if (slots > 0 && slots_.so_far().lost - lost >= slots)
    co_return fail(Errc::failed,
                   "server {} lacks {} slots that no server in step can read: they are damaged "
                   "there, too",
                   server, slots);
  std::set<Party> compared = state_.servers_in_step();
  compared.insert(server);
  S3O_CO_TRY(co_await settler_.compare(std::move(buckets), compared));
  co_return slots;
}

}  // namespace s3oram
