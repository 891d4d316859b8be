// Checks of a ring's buckets, one after another.
#include "oramcore/schemes/ring/client/ring_scrubber.h"

namespace s3oram::ring {

Task<Result<Healed>> RingScrubber::scrub(VolumeEngine::ScrubProgress progress) {
  if (ring_.dead) co_return fail(*ring_.dead);  // there may be no bucket to ask for
  Healed healed;
  std::vector<BucketIndex> buckets;
  for (const auto& [bucket, held] : ring_.held) buckets.push_back(bucket);
  std::uint64_t looked_at = 0;
  for (const BucketIndex bucket : buckets) {
    while (!ring_.dead && rewriter_.is_rewriting(bucket)) co_await ring_.changed.wait();
    if (ring_.dead) co_return fail(*ring_.dead);
    const CheckRequest request{ring_.session.epoch, bucket, ring_.held.at(bucket).stamp};
    auto answer = co_await ring_.servers.ask(kServer, CheckRequest::kType, encode(request));
    ++looked_at;
    if (!answer && answer.error().code == Errc::former_view) continue;  // rewritten by now
    if (!answer) co_return fail(answer.error());
    const auto checked = decode<CheckAnswer>(answer->body());
    if (!checked) co_return fail(Errc::corrupt, "server {} sent an invalid answer", kServer);
    if (checked->rebuilt > 0) healed.shares[kServer] += checked->rebuilt;
    healed.lost += checked->lost;
    ring_.metrics.healed_slots.add(checked->rebuilt);
    if (progress) progress(looked_at, buckets.size(), healed);
  }
  co_return healed;
}

}  // namespace s3oram::ring
