// Scrubs bucket by bucket, with accesses in between.
#include "oramcore/client/scrubber.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace s3oram {
namespace {

constexpr BucketIndex kBucketsAtOnce = 16;

}  // namespace

Task<Result<Healed>> Scrubber::scrub(std::set<Party> servers,
                                     VolumeEngine::ScrubProgress progress) {
  const Healed before = slots_.so_far();
  const std::set<Party> repaired = servers;  // none if all are checked
  for (Party server = 1; servers.empty() && server <= state_.servers.count(); ++server)
    if (!state_.in_step.holds(server))
      spdlog::warn("server {} is away or catching up, and is not checked", server);
  if (servers.empty()) servers = state_.servers_in_step();
  for (const Party server : servers) S3O_CO_TRY(co_await await_in_step(server));
  for (const Party server : servers)
    if (auto room = co_await capacity_.reserve_at(server, state_.tree.height); !room)
      co_return fail(room.error().code, "{} (make room there, and run the same command again)",
                     room.error().message);
  for (BucketIndex next = kRoot; next <= bucket_count(state_.tree.height);) {
    co_await turn_.await_turn();
    if (state_.dead) co_return fail(*state_.dead);
    co_await turn_.begin();
    const std::uint64_t all = bucket_count(state_.tree.height);
    const BucketIndex end = std::min(next + kBucketsAtOnce, all + 1);
    Status status = co_await scrub_buckets(servers, repaired, next, end);
    turn_.end();
    if (!status) co_return fail(state_.dead ? *state_.dead : status.error());
    next = end;
    if (progress) progress(end - 1, all, slots_.so_far().since(before));
  }
  co_return slots_.so_far().since(before);
}

/// Waits until a server of a mirror that was left out has been sent what it lacks, because it
/// cannot be checked before.
Task<Status> Scrubber::await_in_step(Party server) {
  constexpr Duration kComesBack = std::chrono::seconds(30);
  Duration until = state_.now() + kComesBack;
  while (!state_.dead && !state_.in_step.holds(server)) {
    const Duration now = state_.now();
    if (state_.in_step.of(server) != Standing::away) until = now + kComesBack;
    if (now >= until)
      co_return fail(Errc::unreachable,
                     "server {} is away: run the same command again once it answers", server);
    co_await state_.environment.clock.sleep(std::chrono::milliseconds(200));
  }
  if (state_.dead) co_return fail(*state_.dead);
  co_return Status{};
}

Task<Status> Scrubber::scrub_buckets(const std::set<Party>& servers,
                                     const std::set<Party>& repaired, BucketIndex first,
                                     BucketIndex end) {
  Healer::Damage damage;
  std::vector<Task<Status>> checks;
  for (BucketIndex bucket = first; bucket < end; ++bucket) {
    const CheckRequest request{state_.session.epoch, state_.tree.tree_version, state_.tree.written,
                               bucket};
    checks.push_back(
        healer_.add_damage(CheckRequest::kType, encode(request), servers, damage, bucket));
  }
  auto checked = co_await all(std::move(checks));
  for (auto& status : checked) S3O_CO_TRY(status);
  Prover::Mended mended;
  for (const auto& [at, at_servers] : damage)
    if (const auto stored = prover_.stored_bucket(at))
      mended[*stored].insert(at_servers.begin(), at_servers.end());
  S3O_CO_TRY(co_await healer_.heal_slots(std::move(damage), Healer::Loss::left));
  S3O_CO_TRY(co_await prover_.prove(first, end, repaired, mended));
  const std::set<Party> holders = state_.servers_in_step();
  // A server that helped to restore another one's shares may have lied.
  const bool helpers_lie = state_.params.security == Security::malicious;
  if (servers != holders && !settler_.copies_are_compared() && !helpers_lie) co_return Status{};
  std::set<BucketIndex> buckets;
  for (BucketIndex bucket = first; bucket < end; ++bucket) buckets.insert(bucket);
  co_return co_await settler_.compare(std::move(buckets), holders);
}

}  // namespace s3oram
