// Computes the marks of buckets, and disowns shares of a bucket.
#include "serverd/oram/server_marks.h"

#include <algorithm>

namespace s3oram {

// Uses only data of the requested eviction, because a commit may end it during an await. The new
// bucket versions have just been written, so most of them are in the cache.
Task<Result<Bytes>> ServerMarks::mark_prepared(MarkPreparedRequest request, Payload&) {
  if (state_.control.prepared() != request.id)
    co_return fail(Errc::failed, "eviction {} is not prepared", request.id.eviction);
  const auto buckets = path_buckets(state_.params(), request.id.eviction, state_.control.height());
  const BucketVersions versions = state_.control.prepared_versions();
  const ShareMark under(request.key, state_.params().slot_size());
  MarksAnswer answer;
  answer.marks.resize(buckets.size());
  std::vector<Task<Status>> work;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const auto version =
        std::ranges::find(versions, buckets[i], [](const auto& each) { return each.first; });
    if (version == versions.end()) co_return malformed();
    work.push_back(
        offload(state_.background,
                [&, ref = version->second, bucket = buckets[i], &to = answer.marks[i]]() -> Status {
                  S3O_ASSIGN(const auto content, state_.bucket_store->read(ref, depth_of(bucket)));
                  to = mark_of(under, ref, content.get());
                  return {};
                }));
  }
  auto ended = co_await all(std::move(work));
  for (auto& status : ended) S3O_CO_TRY(status);
  co_return encode(answer);
}

Task<Result<Bytes>> ServerMarks::mark_buckets(MarkBucketsRequest request, Payload&) {
  const std::size_t count = request.buckets.size();
  if (count == 0 || count > MarkBucketsRequest::kMost) co_return malformed();
  std::vector<Task<Result<std::optional<Mark>>>> work;
  for (const auto& asked : request.buckets) {
    S3O_CO_ASSIGN(const auto ref, version_of(asked.bucket, request.tree_version));
    work.push_back(
        offload(state_.readers, [this, &asked, ref] { return mark_on_disk(asked, ref); }));
  }
  auto marked = co_await all(std::move(work));
  BucketMarksAnswer answer;
  for (auto& mark : marked) {
    if (!mark) co_return fail(std::move(mark).error());
    answer.marks.push_back(*mark);
  }
  co_return encode(answer);
}

/// Returns std::nullopt if a share of the bucket is damaged. Reads from the file, because the
/// shares that were repaired count only there.
Result<std::optional<Mark>> ServerMarks::mark_on_disk(const MarkBucketsRequest::Bucket& asked,
                                                      const BucketVersionRef& ref) const {
  const ShareMark under(asked.key, state_.params().slot_size());
  if (ref.bucket_version == 0) return std::optional(mark_of(under, ref, nullptr));
  state_.record.upkeep(AccessLog::Operation::read, state_.record.slots(asked.bucket, 0, ref.slots));
  const auto content = state_.bucket_store->load(ref);
  if (!content && content.error().code == Errc::corrupt) return std::optional<Mark>();
  if (!content) return fail(content.error());
  return std::optional(mark_of(under, ref, content->get()));
}

Task<Result<Bytes>> ServerMarks::disown(DisownRequest request, Payload&) {
  S3O_CO_ASSIGN(const auto ref, version_of(request.bucket, request.tree_version));
  const std::size_t bucket_size = state_.params().bucket_size;
  if (request.slots.empty() || request.slots.size() > bucket_size ||
      std::ranges::any_of(request.slots, [&](auto slot) { return slot >= bucket_size; }))
    co_return malformed();
  std::erase_if(request.slots, [&](auto slot) { return slot >= ref.slots; });
  if (ref.bucket_version == 0) co_return done();
  state_.damaged.insert(request.bucket);
  state_.record.upkeep(AccessLog::Operation::write,
                       state_.record.slots(request.bucket, 0, ref.slots));
  const auto clear = [this, ref, slots = std::move(request.slots)]() -> Status {
    for (const std::uint16_t slot : slots)
      S3O_TRY(state_.bucket_store->clear_slot(ref.bucket_version, slot));
    return {};
  };
  S3O_CO_TRY(co_await state_.sync->write(clear));
  co_return done();
}

Result<BucketVersionRef> ServerMarks::version_of(BucketIndex bucket,
                                                 std::uint64_t tree_version) const {
  S3O_TRY(state_.check_tree_version(tree_version));
  const bool in_tree = bucket > kRoot && bucket <= bucket_count(state_.control.height());
  const bool in_stash =
      bucket >= kStashBucket && bucket - kStashBucket < state_.params().stash_buckets();
  if (!in_tree && !in_stash) return malformed();
  return state_.control.bucket(bucket, tree_version);
}

/// Returns the mark of a bucket version; without `content`, of a bucket that was never written.
Mark ServerMarks::mark_of(const ShareMark& under, const BucketVersionRef& ref,
                          const BucketVersion* content) const {
  std::vector<const std::uint8_t*> shares(state_.params().bucket_size);
  for (std::size_t slot = 0; content && slot < ref.slots; ++slot)
    shares[slot] = content->slot(slot);
  return under.of(shares);
}

}  // namespace s3oram
