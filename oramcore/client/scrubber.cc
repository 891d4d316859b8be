// Scrubs bucket by bucket, with accesses in between.
#include "oramcore/client/scrubber.h"

#include <fmt/ranges.h>
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
  S3O_CO_TRY(co_await record_.begin(repaired));
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
  record_.end(servers);
  co_return slots_.so_far().since(before);
}

Task<Status> Scrubber::prove_cut_repair() {
  const ServersBySlot rest = state_.repairs.unproven;
  if (rest.empty()) co_return Status{};
  std::set<Party> servers;
  for (const auto& [at, those] : rest) servers.insert(those.begin(), those.end());
  const std::string whose = fmt::format("{}", fmt::join(servers, ", "));
  co_await turn_.await_turn();
  if (state_.dead) co_return fail(*state_.dead);
  co_await turn_.begin();
  const auto left = co_await prover_.prove_rest();
  turn_.end();
  if (!left) co_return fail(left.error());
  if (*left > 0)
    co_return fail(
        Errc::servers_disagree,
        "a repair of server {} was cut short, and of the shares that others have sent it, "
        "{} cannot be proven: run s3oramfs repair",
        whose, *left);
  record_.remove_all();
  spdlog::info(
      "a repair of server {} was cut short; the shares that it had got last ({} slots) have been "
      "compared with their marks",
      whose, rest.size());
  co_return Status{};
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
  S3O_CO_TRY(co_await record_.add(to_be_proven(damage)));
  S3O_CO_TRY(co_await healer_.heal_slots(std::move(damage), Healer::Loss::left));
  S3O_CO_TRY(co_await prover_.prove(first, end, repaired));
  record_.remove(first, end);
  const std::set<Party> holders = state_.servers_in_step();
  // A server that helped to restore another one's shares may have lied.
  const bool helpers_lie = state_.params.security == Security::malicious;
  if (servers != holders && !settler_.copies_are_compared() && !helpers_lie) co_return Status{};
  std::set<BucketIndex> buckets;
  for (BucketIndex bucket = first; bucket < end; ++bucket) buckets.insert(bucket);
  co_return co_await settler_.compare(std::move(buckets), holders);
}

/// Returns the damaged shares that have to be compared with marks once they are healed.
ServersBySlot Scrubber::to_be_proven(const Healer::Damage& damage) const {
  ServersBySlot mended;
  if (!state_.scheme->keeps_marks()) return mended;
  for (const auto& [at, servers] : damage)
    if (prover_.stored_bucket(at)) mended[at] = servers;
  return mended;
}

}  // namespace s3oram
