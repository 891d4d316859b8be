// Checks all that the servers hold (docs/protocol.md, "Scrub"), bucket by bucket, in a way that
// does not depend on the content: each server reads its shares from its disk, and digests show
// whether the shares of all servers fit together. A share can be wrong although its checksum is
// right, if a server lies or its memory errs.
#include <spdlog/spdlog.h>

#include "oramcore/client/agreement.h"
#include "oramcore/client/engine.h"
#include "oramcore/sharing/digest.h"

namespace s3oram {
namespace {

constexpr BucketIndex kBucketsAtOnce = 16;

}  // namespace

Task<Result<Healed>> Engine::scrub(std::set<Party> servers, ScrubProgress progress) {
  co_return co_await run(scrub_all(std::move(servers), std::move(progress)));
}

Task<Result<Healed>> Engine::scrub_all(std::set<Party> servers, ScrubProgress progress) {
  const Healed before = so_far_;
  for (Party server = 1; servers.empty() && server <= servers_.count(); ++server)
    if (!in_step_.holds(server))
      spdlog::warn("server {} is away, or catches up, and is not checked", server);
  if (servers.empty()) servers = servers_in_step();
  for (const Party server : servers) S3O_CO_TRY(co_await await_in_step(server));
  for (const Party server : servers)
    if (auto room = co_await capacity_.reserve_at(server, tree_.height); !room)
      co_return fail(room.error().code, "{} (make room there, and run the same again)",
                     room.error().message);
  for (BucketIndex next = kRoot; next <= bucket_count(tree_.height);) {
    while (!dead_ && (healing_ || waiting_for_healing_ > 0)) co_await healed_.wait();
    if (dead_) co_return fail(*dead_);
    co_await begin_healing();
    const std::uint64_t all = bucket_count(tree_.height);
    const BucketIndex end = std::min(next + kBucketsAtOnce, all + 1);
    Status status = co_await scrub_buckets(servers, next, end);
    end_healing();
    if (!status) co_return fail(dead_ ? *dead_ : status.error());
    next = end;
    if (progress) progress(end - 1, all, so_far_.since(before));
  }
  co_return so_far_.since(before);
}

/// A server of a mirror that was left out is sent what it lacks before it is checked.
Task<Status> Engine::await_in_step(Party server) {
  constexpr Duration kComesBack = std::chrono::seconds(30);
  Duration until = environment_.clock.now() + kComesBack;
  while (!dead_ && !in_step_.holds(server)) {
    const Duration now = environment_.clock.now();
    if (in_step_.of(server) != Standing::away) until = now + kComesBack;
    if (now >= until)
      co_return fail(Errc::unreachable, "server {} is away: run the same again once it answers",
                     server);
    co_await environment_.clock.sleep(std::chrono::milliseconds(200));
  }
  if (dead_) co_return fail(*dead_);
  co_return Status{};
}

Task<Status> Engine::scrub_buckets(const std::set<Party>& servers, BucketIndex first,
                                   BucketIndex end) {
  Damage damage;
  std::vector<Task<Status>> checks;
  for (BucketIndex bucket = first; bucket < end; ++bucket) {
    const CheckRequest request{session_.epoch, tree_.tree_version, tree_.written, bucket};
    checks.push_back(add_damage(CheckRequest::kType, encode(request), servers, damage, bucket));
  }
  auto checked = co_await all(std::move(checks));
  for (auto& status : checked) S3O_CO_TRY(status);
  S3O_CO_TRY(co_await heal_slots(std::move(damage), Loss::left));
  const std::set<Party> holders = servers_in_step();
  // A server that helped with another one's shares may have lied.
  const bool helpers_lie = params_.security == Security::malicious;
  if (servers != holders && !copies_are_compared() && !helpers_lie) co_return Status{};
  std::set<BucketIndex> buckets;
  for (BucketIndex bucket = first; bucket < end; ++bucket) buckets.insert(bucket);
  co_return co_await compare_buckets(std::move(buckets), holders);
}

/// Whether a slot that one server gives to another is compared with those of more servers: what a
/// mirror's server gives would else count on its word alone. (Shares that do not fit do not open.)
bool Engine::copies_are_compared() const { return params_.enough() == 1 && servers_.count() > 2; }

Task<Status> Engine::compare_buckets(std::set<BucketIndex> buckets,
                                     const std::set<Party>& servers) {
  const Bytes holders(servers.begin(), servers.end());
  std::vector<Task<Status>> comparisons;
  for (const BucketIndex bucket : buckets) comparisons.push_back(compare_shares(bucket, holders));
  auto compared = co_await all(std::move(comparisons));
  for (auto& status : compared) S3O_CO_TRY(status);
  co_return Status{};
}

Task<Status> Engine::compare_shares(BucketIndex bucket, const Bytes& servers) {
  const DigestsRequest request{session_.epoch, tree_.tree_version, bucket,
                               environment_.random.seed()};
  auto answers = co_await for_each_of(servers, [&](Party server) {
    return servers_.ask(server, DigestsRequest::kType, encode(request));
  });
  // A slot that a server does not name is zero there.
  std::map<std::uint16_t, std::vector<Bytes>> digests;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) co_return fail(answers[i].error());
    auto found = decode<DigestsAnswer>(answers[i]->body());
    if (!found) co_return fail(Errc::failed, "server {} answers nonsense", servers[i]);
    for (SlotDigest& each : found->slots)
      digests.try_emplace(each.slot, answers.size(), Bytes(ShareDigest::kSize)).first->second[i] =
          std::move(each.digest);
  }
  for (const auto& [slot, of] : digests)
    if (const SlotAddress at{bucket, slot}; is_settled(at) && !fit_together(of, servers))
      S3O_CO_TRY(co_await settle(at, servers));
  co_return Status{};
}

/// Whether no write to the slot is under way.
bool Engine::is_settled(SlotAddress at) const {
  if (at.bucket != kRoot || at.slot >= params_.root_buffer_slots()) return true;
  const unsigned every = params_.evict_every;
  const WriteNumber write_number = access_records_[at.slot].write_number;
  return write_number >= first_write_number(tree_.tree_version, every) &&
         write_number < tree_.written && root_slot(write_number, every) == at.slot;
}

/// Whether the shares fit together. One that is damaged was found by now, or will be: it says
/// nothing of the others. Where copies are compared, a server in step that shows none may have
/// given its copy to another one, whose word alone it would then be.
bool Engine::fit_together(const std::vector<Bytes>& digests, const Bytes& servers) const {
  std::vector<ByteSpan> shown;
  Bytes by;
  for (std::size_t i = 0; i < digests.size(); ++i) {
    if (digests[i].size() == ShareDigest::kSize) {
      shown.emplace_back(digests[i]);
      by.push_back(servers[i]);
    } else if (copies_are_compared() && in_step_.holds(servers[i])) {
      return false;
    }
  }
  return on_one_polynomial(params_.enough(), by, shown);
}

/// Whether the slot may hold that: its resident, or anything if it has none.
bool Engine::is_resident(const Label& label, SlotAddress at) const {
  for (const Resident& resident : positions_.contents(at.bucket))
    if (resident.slot == at.slot)
      return label.block == resident.block && label.version == resident.version;
  return true;
}

/// Reads all shares of a slot. Those that do not fit to the t + 1 whose content opens are replaced.
/// The content; std::nullopt if too few open, or can be read.
Task<Result<std::optional<Bytes>>> Engine::settle(SlotAddress at, const Bytes& asked) {
  auto answers = co_await read_slot(at, asked);
  Bytes servers;
  std::vector<Bytes> shares;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    auto& answer = answers[i];
    if (!answer || answer->body().size() != params_.slot_size()) continue;
    servers.push_back(asked[i]);
    shares.emplace_back(answer->body().begin(), answer->body().end());
  }
  const std::size_t enough = params_.enough();
  const std::vector<ByteSpan> spans = spans_of(shares);
  if (servers.size() == asked.size() && on_one_polynomial(enough, servers, spans))
    co_return std::optional(
        recover(ByteSpan(servers).first(enough), std::span(spans).first(enough)));
  const auto agreement = find_agreement(*scheme_, params_, servers, shares,
                                        [&](const Label& label) { return is_resident(label, at); });
  if (!agreement) {
    ++so_far_.lost;
    spdlog::error(
        "the shares of slot {} of bucket {} do not fit together, and none that do open: "
        "what it held is lost",
        at.slot, at.bucket);
    co_return std::optional<Bytes>();
  }
  bool changed = false;
  for (const Party server : servers) {
    if (agreement->holds(server)) continue;
    const auto written = co_await write_share(server, at, agreement->share_of(server));
    if (!written && written.error().code == Errc::bad_request) {
      // A share of a slot that nobody has written: there is none to replace.
      spdlog::error("server {} answers a wrong share of slot {} of bucket {}: it is faulty or lies",
                    server, at.slot, at.bucket);
      continue;
    }
    if (!written) co_return fail(written.error());
    healed(server, at);
    changed = true;
  }
  contents_changed_ += changed;
  co_return std::optional(agreement->share_of(0));
}

}  // namespace s3oram
