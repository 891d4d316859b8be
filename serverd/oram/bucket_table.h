// The bucket versions of one tree version, in memory: one for each bucket of the tree and of the
// stash part.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "oramcore/protocol/repair_messages.h"
#include "serverd/store/bucket_store.h"

namespace s3oram {

/// New versions of some buckets.
using BucketVersions = std::vector<std::pair<BucketIndex, BucketVersionRef>>;

/// Used by one thread at a time.
class BucketTable {
 public:
  BucketTable() = default;
  BucketTable(unsigned height, std::size_t stash_buckets)
      : height_(height), buckets_(slots()), stash_(stash_buckets) {}

  unsigned height() const { return height_; }
  /// Sets the height. Forgets buckets below it; new buckets start empty.
  void set_height(unsigned height) {
    height_ = height;
    buckets_.resize(slots());
  }
  /// Returns whether the tree can have such a bucket.
  bool possible(BucketIndex bucket) const {
    return bucket >= kStashBucket ? bucket - kStashBucket < stash_.size()
                                  : bucket > kRoot && bucket < buckets_.size();
  }
  BucketVersionRef& at(BucketIndex bucket) {
    return bucket >= kStashBucket ? stash_[bucket - kStashBucket] : buckets_[bucket];
  }
  const BucketVersionRef& at(BucketIndex bucket) const {
    return bucket >= kStashBucket ? stash_[bucket - kStashBucket] : buckets_[bucket];
  }
  /// Returns the buckets that are not empty, ascending.
  BucketVersions filled() const;
  /// Returns a bound on the bucket versions in use: never more than three versions of the whole
  /// tree.
  std::int64_t most_versions() const {
    return 3 * static_cast<std::int64_t>(slots() + stash_.size());
  }
  /// Returns the version of this bucket, if this tree version has it. Its stamp identifies it,
  /// because attempts have different stamps and write each bucket once. If the tree has grown since
  /// then, `bucket` may name a former leaf by one of its children.
  std::optional<BucketVersionNumber> find(const BucketShape& bucket) const;
  /// Returns what changes when `prepared` becomes the next tree version. If the height grows, the
  /// version of every old leaf becomes that of both its children, so that its blocks lie one level
  /// deeper without being moved. A ring instead adds an empty level.
  BucketVersions changes(const BucketVersions& prepared, unsigned next_height, bool ring) const;

 private:
  std::size_t slots() const { return bucket_count(height_) + 1; }

  unsigned height_ = 0;
  std::vector<BucketVersionRef> buckets_;  // by BucketIndex
  std::vector<BucketVersionRef> stash_;    // by BucketIndex from kStashBucket on
};

}  // namespace s3oram
