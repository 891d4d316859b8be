// Answers to a client that has lost its own state (oramcore/client/rebuild.h): where
// this server stands, and its shares of all labels; and to one that looks whether all servers'
// shares fit together: digests.
#include "oramcore/sharing/digest.h"
#include "serverd/oram/server.h"

namespace s3oram {

Result<Bytes> Server::survey(const SurveyRequest& request) {
  S3O_TRY(check_volume(request.volume));
  SurveyAnswer answer{.session = control_.session(),
                      .tree_version = control_.tree_version(),
                      .height = static_cast<std::uint8_t>(control_.height()),
                      .prepared = control_.prepared(),
                      .root = {}};
  for (const RootBufferSlot& slot : root_buffer_)
    answer.root.push_back(slot.durable == slot.stamp ? slot.stamp : 0);
  return encode(answer);
}

Task<Result<Bytes>> Server::labels(LabelsRequest request, Payload&) {
  LabelsAnswer answer;
  S3O_CO_TRY(co_await visit_slots(request.tree_version, request.bucket,
                                  [&](std::uint16_t slot, std::optional<ByteSpan> share) {
                                    LabelShare& label = answer.slots.emplace_back();
                                    label.slot = slot;
                                    label.damaged = !share;
                                    if (share) label.share = label_bytes(*share);
                                  }));
  co_return encode(answer);
}

Task<Result<Bytes>> Server::heads(HeadsRequest request, Payload&) {
  if (request.size > params().slot_size()) co_return malformed();
  HeadsAnswer answer;
  S3O_CO_TRY(co_await visit_slots(
      request.tree_version, request.bucket, [&](std::uint16_t slot, std::optional<ByteSpan> share) {
        SlotHead& head = answer.slots.emplace_back();
        head.slot = slot;
        if (share) head.head.assign(share->begin(), share->begin() + request.size);
      }));
  co_return encode(answer);
}

Task<Result<Bytes>> Server::digests(DigestsRequest request, Payload&) {
  const ShareDigest digest(request.seed, params().slot_size());
  DigestsAnswer answer;
  S3O_CO_TRY(co_await visit_slots(
      request.tree_version, request.bucket, [&](std::uint16_t slot, std::optional<ByteSpan> share) {
        answer.slots.push_back({slot, share ? digest.of(*share) : Bytes()});
      }));
  co_return encode(answer);
}

Task<Status> Server::visit_slots(std::uint64_t tree_version, BucketIndex bucket,
                                 SlotVisitor visit) {
  S3O_CO_TRY(check_tree_version(tree_version));
  if (bucket < kRoot || bucket > bucket_count(control_.height())) co_return malformed();
  std::vector<BucketIndex> buckets;
  if (bucket == kRoot) {
    record_upkeep(AccessLog::Operation::read, recorded(kRoot, 0, root_buffer_.size()));
    for (std::uint16_t slot = 0; slot < root_buffer_.size(); ++slot)
      visit(slot, root_buffer_[slot].stamp == 0
                      ? std::nullopt
                      : std::optional<ByteSpan>(*root_buffer_[slot].content));
    for (unsigned i = 0; i < params().stash_buckets(); ++i) buckets.push_back(kStashBucket + i);
  } else {
    buckets.push_back(bucket);
  }
  for (const BucketIndex each : buckets) {
    S3O_CO_ASSIGN(const auto ref, control_.bucket(each, tree_version));
    if (ref.bucket_version == 0) continue;
    S3O_CO_TRY(co_await offload(readers_, [&] { return visit_bucket_version(each, ref, visit); }));
  }
  co_return Status{};
}

// Runs on a reader's thread.
Status Server::visit_bucket_version(BucketIndex bucket, BucketVersionRef ref,
                                    const SlotVisitor& visit) {
  record_upkeep(AccessLog::Operation::read, recorded(bucket, 0, ref.slots));
  const auto bucket_version = bucket_store_->read(ref, depth_of(bucket));
  if (!bucket_version && bucket_version.error().code != Errc::corrupt)
    return fail(bucket_version.error());
  for (std::uint16_t slot = 0; slot < ref.slots; ++slot) {
    const std::uint16_t at = address_of(bucket, slot).slot;
    if (bucket_version) {
      visit(at, ByteSpan((*bucket_version)->slot(slot), params().slot_size()));
      continue;
    }
    const auto found = bucket_store_->read_slot(ref.bucket_version, slot, ref.stamp);
    visit(at, found && *found ? std::optional<ByteSpan>((*found)->content) : std::nullopt);
  }
  return {};
}

}  // namespace s3oram
