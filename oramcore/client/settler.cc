// Compares shares, and replaces wrong ones.
#include "oramcore/client/settler.h"

#include <spdlog/spdlog.h>

#include "oramcore/client/agreement.h"
#include "oramcore/sharing/digest.h"

namespace s3oram {

bool Settler::copies_are_compared() const {
  return state_.params.enough() == 1 && state_.servers.count() > 2;
}

Task<Status> Settler::compare(std::set<BucketIndex> buckets, const std::set<Party>& servers) {
  const Bytes holders(servers.begin(), servers.end());
  std::vector<Task<Status>> comparisons;
  for (const BucketIndex bucket : buckets) comparisons.push_back(compare(bucket, holders));
  auto compared = co_await all(std::move(comparisons));
  for (auto& status : compared) S3O_CO_TRY(status);
  co_return Status{};
}

Task<Status> Settler::compare(BucketIndex bucket, const Bytes& servers) {
  const DigestsRequest request{state_.session.epoch, state_.tree.tree_version, bucket,
                               state_.environment.random.seed()};
  auto answers = co_await for_each_of(servers, [&](Party server) {
    return state_.servers.ask(server, DigestsRequest::kType, encode(request));
  });
  // A slot that a server does not list is zero at that server.
  std::map<std::uint16_t, std::vector<Bytes>> digests;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) co_return fail(answers[i].error());
    auto found = decode<DigestsAnswer>(answers[i]->body());
    if (!found) co_return fail(Errc::failed, "server {} sent an invalid answer", servers[i]);
    for (SlotDigest& each : found->slots) {
      // The others would be asked for it, and their refusal would count against them.
      if (!state_.has_slot({bucket, each.slot}))
        co_return fail(
            Errc::failed, "{}",
            state_.servers.found_lying(servers[i], "it lists slots that do not exist").message);
      digests.try_emplace(each.slot, answers.size(), Bytes(ShareDigest::kSize)).first->second[i] =
          std::move(each.digest);
    }
  }
  for (const auto& [slot, of] : digests)
    if (const SlotAddress at{bucket, slot}; is_settled(at) && !fit_together(of, servers))
      S3O_CO_TRY(co_await settle(at, servers));
  co_return Status{};
}

bool Settler::is_settled(SlotAddress at) const {
  if (at.bucket != kRoot || at.slot >= state_.params.root_buffer_slots()) return true;
  const unsigned every = state_.params.evict_every;
  const WriteNumber write_number = state_.access_records[at.slot].write_number;
  return write_number >= first_write_number(state_.tree.tree_version, every) &&
         write_number < state_.tree.written && root_slot(write_number, every) == at.slot;
}

/// Returns whether the shares are consistent. Damaged shares are left to the healing, because they
/// say nothing about the others. Where copies are compared, a server in step that shows no copy may
/// have given its copy to another server, so that the two are only one witness.
bool Settler::fit_together(const std::vector<Bytes>& digests, const Bytes& servers) const {
  std::vector<ByteSpan> shown;
  Bytes by;
  for (std::size_t i = 0; i < digests.size(); ++i) {
    if (digests[i].size() == ShareDigest::kSize) {
      shown.emplace_back(digests[i]);
      by.push_back(servers[i]);
    } else if (copies_are_compared() && state_.in_step.holds(servers[i])) {
      return false;
    }
  }
  return on_one_polynomial(state_.params.enough(), by, shown);
}

Task<Result<std::optional<Bytes>>> Settler::settle(SlotAddress at, const Bytes& asked) {
  auto answers = co_await slots_.read(at, asked);
  Bytes servers;
  std::vector<Bytes> shares;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    auto& answer = answers[i];
    if (!answer || answer->body().size() != state_.params.slot_size()) continue;
    servers.push_back(asked[i]);
    shares.emplace_back(answer->body().begin(), answer->body().end());
  }
  const std::size_t enough = state_.params.enough();
  const std::vector<ByteSpan> spans = spans_of(shares);
  if (servers.size() == asked.size() && on_one_polynomial(enough, servers, spans))
    co_return std::optional(
        recover(ByteSpan(servers).first(enough), std::span(spans).first(enough)));
  const auto agreement =
      find_agreement(*state_.scheme, state_.params, servers, shares,
                     [&](const Label& label) { return state_.is_resident(label, at); });
  if (!agreement) {
    slots_.lost();
    spdlog::error(
        "the shares of slot {} of bucket {} contradict each other, and none of them open: "
        "its content is lost",
        at.slot, at.bucket);
    co_return std::optional<Bytes>();
  }
  bool changed = false;
  for (const Party server : servers) {
    if (agreement->holds(server)) continue;
    const auto written = co_await slots_.write(server, at, agreement->share_of(server));
    if (!written && !SlotShares::is_refusal(written.error().code)) co_return fail(written.error());
    if (!written) {
      // It has no such slot, or says so. The others' shares are right whatever it stores.
      state_.servers.found_lying(
          server, fmt::format("it sent a wrong share of slot {} of bucket {}", at.slot, at.bucket));
      continue;
    }
    slots_.healed(server, at);
    // Nobody computes with what a server holds that only follows. If its slots counted, one that
    // lies about them could have attempts and answers thrown away for as long as it catches up.
    const Standing standing = state_.in_step.of(server);
    changed = changed || standing == Standing::in_step || standing == Standing::leaving;
  }
  state_.contents.changed += changed;
  co_return std::optional(agreement->share_of(0));
}

}  // namespace s3oram
