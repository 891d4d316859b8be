// Reads slots for a client that has lost its own state, or that compares the servers' shares.
#include "serverd/oram/server_labels.h"

#include <unordered_map>

#include "oramcore/sharing/digest.h"

namespace s3oram {

Result<Bytes> ServerLabels::survey() const {
  SurveyAnswer answer{.session = state_.control.session(),
                      .tree_version = state_.control.tree_version(),
                      .height = static_cast<std::uint8_t>(state_.control.height()),
                      .prepared = state_.control.prepared(),
                      .root = {}};
  for (std::size_t i = 0; i < state_.root_buffer.size(); ++i) {
    const RootBuffer::Slot& slot = state_.root_buffer[i];
    answer.root.push_back(slot.durable == slot.stamp ? slot.stamp : 0);
  }
  return encode(answer);
}

Task<Result<Bytes>> ServerLabels::layout(LayoutRequest request, Payload&) {
  S3O_CO_TRY(state_.check_tree_version(request.tree_version));
  if (request.most == 0) co_return malformed();
  if (request.most >
      LayoutRequest::kMost)  // an older client, from before the volume bounded messages
    co_return fail(Errc::unsupported,
                   "this server lists {} buckets at a time: repair with a newer s3oramfs",
                   LayoutRequest::kMost);
  LayoutAnswer answer;
  std::unordered_map<BucketVersionNumber, BucketIndex> first;
  std::uint64_t before = 0;
  for (const auto& [bucket, ref] : state_.control.layout()) {
    const BucketIndex same = first.try_emplace(ref.bucket_version, bucket).first->second;
    if (before++ >= request.from) answer.buckets.push_back({bucket, same, ref.slots, ref.stamp});
    if (answer.buckets.size() == request.most) break;
  }
  co_return encode(answer);
}

Task<Result<Bytes>> ServerLabels::labels(LabelsRequest request, Payload&) {
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

Task<Result<Bytes>> ServerLabels::heads(HeadsRequest request, Payload&) {
  if (request.size > state_.params().slot_size()) co_return malformed();
  HeadsAnswer answer;
  S3O_CO_TRY(co_await visit_slots(
      request.tree_version, request.bucket, [&](std::uint16_t slot, std::optional<ByteSpan> share) {
        SlotHead& head = answer.slots.emplace_back();
        head.slot = slot;
        if (share) head.head.assign(share->begin(), share->begin() + request.size);
      }));
  co_return encode(answer);
}

Task<Result<Bytes>> ServerLabels::digests(DigestsRequest request, Payload&) {
  const ShareDigest digest(request.seed, state_.params().slot_size());
  DigestsAnswer answer;
  S3O_CO_TRY(co_await visit_slots(
      request.tree_version, request.bucket, [&](std::uint16_t slot, std::optional<ByteSpan> share) {
        answer.slots.push_back({slot, share ? digest.of(*share) : Bytes()});
      }));
  co_return encode(answer);
}

Task<Status> ServerLabels::visit_slots(std::uint64_t tree_version, BucketIndex bucket,
                                       SlotVisitor visit) {
  S3O_CO_TRY(state_.check_tree_version(tree_version));
  if (bucket < kRoot || bucket > bucket_count(state_.control.height())) co_return malformed();
  std::vector<BucketIndex> buckets;
  if (bucket == kRoot) {
    state_.record.upkeep(AccessLog::Operation::read,
                         state_.record.slots(kRoot, 0, state_.root_buffer.size()));
    for (std::uint16_t slot = 0; slot < state_.root_buffer.size(); ++slot)
      visit(slot, state_.root_buffer[slot].stamp == 0
                      ? std::nullopt
                      : std::optional<ByteSpan>(*state_.root_buffer[slot].content));
    for (unsigned i = 0; i < state_.params().stash_buckets(); ++i)
      buckets.push_back(kStashBucket + i);
  } else {
    buckets.push_back(bucket);
  }
  for (const BucketIndex each : buckets) {
    S3O_CO_ASSIGN(const auto ref, state_.control.bucket(each, tree_version));
    if (ref.bucket_version == 0) continue;
    S3O_CO_TRY(
        co_await offload(state_.readers, [&] { return visit_bucket_version(each, ref, visit); }));
  }
  co_return Status{};
}

// Runs on a reader's thread.
Status ServerLabels::visit_bucket_version(BucketIndex bucket, BucketVersionRef ref,
                                          const SlotVisitor& visit) {
  state_.record.upkeep(AccessLog::Operation::read, state_.record.slots(bucket, 0, ref.slots));
  const auto bucket_version = state_.bucket_store->read(ref, depth_of(bucket));
  if (!bucket_version && bucket_version.error().code != Errc::corrupt)
    return fail(bucket_version.error());
  for (std::uint16_t slot = 0; slot < ref.slots; ++slot) {
    const std::uint16_t at = address_of(state_.params(), bucket, slot).slot;
    if (bucket_version) {
      visit(at, ByteSpan((*bucket_version)->slot(slot), state_.params().slot_size()));
      continue;
    }
    const auto found = state_.bucket_store->read_slot(ref.bucket_version, slot, ref.stamp);
    visit(at, found && *found ? std::optional<ByteSpan>((*found)->content) : std::nullopt);
  }
  return {};
}

}  // namespace s3oram
