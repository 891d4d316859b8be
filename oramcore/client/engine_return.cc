// What the engine does so that servers can leave a mirror and come back (attendance.h, catch_up.h).
#include "oramcore/client/engine.h"

namespace s3oram {

Attendance::Owner Engine::attendance_owner() {
  return {.commit = [this] { return commit_left_out(); },
          .catch_up = [this](Party server) { return catch_up(server); },
          .start = [this](Task<void> task) { start(std::move(task)); }};
}

CatchUp::Owner Engine::catch_up_owner() {
  return {.hold_evictions = [this] { return hold_evictions(); },
          .let_evict = [this] { let_evict(); },
          .tree = [this]() -> const TreeState& { return tree_; },
          .root = [this] { return acknowledged_root(); },
          .await_writes = [this] { return await_writes(); },
          .copy_some = [this](Party server) { return copy_some(server); }};
}

Task<Status> Engine::commit_left_out() {
  pending_.left_out = in_step_.left_out();
  if (pending_.left_out->empty()) forget_rewritten();
  co_return co_await commit_until_done();
}

void Engine::note_rewritten(BucketIndex bucket) {
  if (rewritten_.insert(bucket).second) pending_.rewritten = rewritten_;
}

void Engine::forget_rewritten() {
  if (rewritten_.empty()) return;
  rewritten_.clear();
  pending_.rewritten = rewritten_;
}

Task<Status> Engine::catch_up(Party server) {
  S3O_CO_TRY(co_await catch_up_.run(server, session_));
  if (servers_.all_have_session())
    S3O_CO_TRY(co_await offload(environment_.database,
                                [this] { return state_.forget_sessions_before(session_.epoch); }));
  co_return Status{};
}

Task<void> Engine::hold_evictions() {
  ++holds_;
  while (!dead_ && stepping_) co_await stepped_.wait();
}

void Engine::let_evict() {
  --holds_;
  stepped_.notify_all();
}

/// The root writes that all have, by their accesses, as OpenRequest has them.
std::vector<std::uint64_t> Engine::acknowledged_root() const {
  std::vector<std::uint64_t> root;
  for (WriteNumber write_number = first_write_number(durable_.tree_version, params_.evict_every);
       write_number < tree_.written; ++write_number)
    root.push_back(access_records_[root_slot(write_number, params_.evict_every)].access);
  return root;
}

Task<Status> Engine::await_writes() {
  const WriteNumber until = uploaded_;
  while (!dead_ && tree_.written < until) co_await write_numbers_changed_.wait();
  if (dead_) co_return fail(*dead_);
  co_return Status{};
}

/// Others who wait to decide something, or have found damage, go first.
Task<Result<std::size_t>> Engine::copy_some(Party server) {
  while (!dead_ && (healing_ || waiting_for_healing_ > 0)) co_await healed_.wait();
  if (dead_) co_return fail(*dead_);
  co_await begin_healing();
  auto copied = co_await copy_damage(server);
  end_healing();
  if (dead_) co_return fail(*dead_);
  co_return copied;
}

Task<Result<std::size_t>> Engine::copy_damage(Party server) {
  const DamageRequest request{session_.epoch, tree_.tree_version, tree_.written};
  Damage damage;
  const std::set<Party> asked{server};
  S3O_CO_TRY(co_await add_damage(DamageRequest::kType, encode(request), asked, damage));
  const std::size_t slots = damage.size();
  std::set<BucketIndex> buckets;
  for (const auto& [at, servers] : damage) buckets.insert(at.bucket);
  if (slots == 0) buckets = rewritten_;  // before it counts as in step
  const std::uint64_t lost = so_far_.lost;
  S3O_CO_TRY(co_await heal_slots(std::move(damage), Loss::left));
  if (slots > 0 && so_far_.lost - lost >= slots)
    co_return fail(Errc::failed,
                   "server {} lacks {} slots that no server in step can read: they are damaged "
                   "there, too",
                   server, slots);
  std::set<Party> compared = servers_in_step();
  compared.insert(server);
  S3O_CO_TRY(co_await compare_buckets(std::move(buckets), compared));
  co_return slots;
}

}  // namespace s3oram
