// Keeps bucket versions by bucket, and computes how they change when the tree grows.
#include "serverd/oram/bucket_table.h"

#include <unordered_map>

namespace s3oram {

BucketVersions BucketTable::filled() const {
  BucketVersions filled;
  for (BucketIndex bucket = 0; bucket < buckets_.size(); ++bucket)
    if (buckets_[bucket].bucket_version != 0) filled.emplace_back(bucket, buckets_[bucket]);
  for (std::size_t i = 0; i < stash_.size(); ++i)
    if (stash_[i].bucket_version != 0) filled.emplace_back(kStashBucket + i, stash_[i]);
  return filled;
}

std::optional<BucketVersionNumber> BucketTable::find(const BucketShape& bucket) const {
  BucketIndex where = bucket.bucket;
  if (where < kStashBucket && level_of(where) > height_) where = bucket_on_path(where, height_);
  const bool there =
      where >= kStashBucket ? where - kStashBucket < stash_.size() : where < buckets_.size();
  if (!there || !bucket.stamp) return std::nullopt;
  const BucketVersionRef& ref = at(where);
  if (ref.bucket_version == 0 || ref.stamp != bucket.stamp || ref.slots != bucket.slots)
    return std::nullopt;
  return ref.bucket_version;
}

BucketVersions BucketTable::changes(const BucketVersions& prepared, unsigned next_height,
                                    bool ring) const {
  BucketVersions changes = prepared;
  if (next_height == height_ || ring) return changes;
  std::unordered_map<BucketIndex, BucketVersionRef> leaves;
  const BucketIndex first = BucketIndex{1} << height_;
  for (BucketIndex leaf = first; leaf < 2 * first; ++leaf) leaves[leaf] = buckets_[leaf];
  std::erase_if(changes, [&](const auto& change) {
    if (change.first < first || change.first >= kStashBucket) return false;
    leaves[change.first] = change.second;
    return true;
  });
  for (const auto& [leaf, ref] : leaves) {
    changes.emplace_back(leaf, BucketVersionRef{});
    changes.emplace_back(child_of(leaf, 0), ref);
    changes.emplace_back(child_of(leaf, 1), ref);
  }
  return changes;
}

}  // namespace s3oram
