// Computes the marks of buckets, and disowns the shares of a bucket.
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

// Reads from the file, because the shares that were repaired count only there.
Task<Result<Bytes>> ServerMarks::mark_bucket(MarkBucketRequest request, Payload&) {
  S3O_CO_ASSIGN(const auto ref, version_of(request.bucket, request.tree_version));
  auto marked = co_await offload(state_.readers, [&]() -> Result<Mark> {
    const ShareMark under(request.key, state_.params().slot_size());
    if (ref.bucket_version == 0) return mark_of(under, ref, nullptr);
    state_.record.upkeep(AccessLog::Operation::read,
                         state_.record.slots(request.bucket, 0, ref.slots));
    S3O_ASSIGN(const auto content, state_.bucket_store->load(ref));
    return mark_of(under, ref, content.get());
  });
  if (!marked) co_return fail(std::move(marked).error());
  co_return encode(MarksAnswer{{*marked}});
}

Task<Result<Bytes>> ServerMarks::disown(DisownRequest request, Payload&) {
  S3O_CO_ASSIGN(const auto ref, version_of(request.bucket, request.tree_version));
  if (ref.bucket_version == 0) co_return done();
  state_.damaged.insert(request.bucket);
  state_.record.upkeep(AccessLog::Operation::write,
                       state_.record.slots(request.bucket, 0, ref.slots));
  const auto clear = [this, ref]() -> Status {
    for (std::size_t slot = 0; slot < ref.slots; ++slot)
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
