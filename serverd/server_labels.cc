// What a client asks who has lost its own state (oramcore/client/rebuild.h): where this server
// stands, and its shares of all labels.
#include "serverd/server.h"

namespace s3oram {

Result<Bytes> Server::survey(const SurveyRequest& request) {
  S3O_TRY(check_volume(request.volume));
  SurveyAnswer answer{.session = control_.session(),
                      .view = control_.view(),
                      .height = static_cast<std::uint8_t>(control_.height()),
                      .prepared = control_.prepared(),
                      .root = {}};
  for (const RingSlot& slot : ring_)
    answer.root.push_back(slot.durable == slot.stamp ? slot.stamp : 0);
  return encode(answer);
}

Task<Result<Bytes>> Server::labels(LabelsRequest request, Payload&) {
  S3O_CO_TRY(check_view(request.view));
  if (request.bucket < kRoot || request.bucket > bucket_count(control_.height()))
    co_return malformed();
  LabelsAnswer answer;
  std::vector<BucketIndex> buckets;
  if (request.bucket == kRoot) {
    for (std::uint16_t slot = 0; slot < ring_.size(); ++slot) {
      LabelShare& label = answer.slots.emplace_back(LabelShare{.slot = slot, .share = {}});
      label.damaged = ring_[slot].stamp == 0;
      if (!label.damaged) label.share = label_bytes(*ring_[slot].content);
    }
    for (unsigned i = 0; i < params().stash_buckets(); ++i) buckets.push_back(kStashBucket + i);
  } else {
    buckets.push_back(request.bucket);
  }
  for (const BucketIndex bucket : buckets) {
    const auto ref = control_.bucket(bucket, request.view);
    if (!ref) co_return fail(ref.error());
    if (ref->frame == 0) continue;
    auto found = co_await offload(readers_, [&] { return labels_of(bucket, *ref); });
    if (!found) co_return fail(found.error());
    answer.slots.insert(answer.slots.end(), found->begin(), found->end());
  }
  co_return encode(answer);
}

// On a reader's thread.
Result<std::vector<LabelShare>> Server::labels_of(BucketIndex bucket, FrameRef ref) {
  std::vector<LabelShare> labels;
  const auto frame = frames_->read(ref, depth_of(bucket));
  if (!frame && frame.error().code != Errc::corrupt) return fail(frame.error());
  for (std::uint16_t slot = 0; slot < ref.slots; ++slot) {
    LabelShare& label = labels.emplace_back();
    label.slot = address_of(bucket, slot).slot;
    if (frame) {
      label.share = label_bytes({(*frame)->slot(slot), params().slot_size()});
      continue;
    }
    auto found = frames_->read_slot(ref.frame, slot, ref.stamp);
    if (!found) return fail(found.error());
    label.damaged = !*found;
    if (*found) label.share = label_bytes((*found)->content);
  }
  return labels;
}

}  // namespace s3oram
