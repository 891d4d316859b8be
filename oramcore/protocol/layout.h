// Determines which slots a retrieval or an eviction covers, and in which order. This depends only
// on public counters.
//
// Root writes are counted: write number n goes to slot n mod 2A of the root buffer, so that A
// writes fill one of its two groups while the other group is evicted. Tree version e, the tree
// before eviction e, holds the root writes from number e * A on; eviction e moves A of them down.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "oramcore/oram/geometry.h"
#include "oramcore/protocol/params.h"

namespace s3oram {

using WriteNumber = std::uint64_t;

/// Return the first root write that is not yet evicted in `tree_version`, and the first one for
/// which that version has no place.
constexpr WriteNumber first_write_number(std::uint64_t tree_version, unsigned evict_every) {
  return tree_version * evict_every;
}
constexpr WriteNumber end_write_number(std::uint64_t tree_version, unsigned evict_every) {
  return (tree_version + 2) * evict_every;
}
constexpr std::uint16_t root_slot(WriteNumber write_number, unsigned evict_every) {
  return static_cast<std::uint16_t>(write_number % (2 * evict_every));
}

/// The slots of a path in a tree version: first those of the root writes from first_write_number()
/// up to `written`, in order, then the root's stash part, then the Z slots of each level from 1 to
/// `height`.
class PathSlots {
 public:
  /// Requires first_write_number(tree_version) <= written <= end_write_number(tree_version).
  PathSlots(const VolumeParams& params, std::uint64_t tree_version, WriteNumber written,
            unsigned height)
      : root_buffer_(params.root_buffer_slots()),
        first_(root_slot(first_write_number(tree_version, params.evict_every), params.evict_every)),
        writes_(written - first_write_number(tree_version, params.evict_every)),
        stash_(params.stash_slots),
        bucket_size_(params.bucket_size),
        height_(height) {
    assert(writes_ <= root_buffer_);
  }
  /// Returns the slots that eviction `tree_version` covers.
  static PathSlots evicted(const VolumeParams& params, std::uint64_t tree_version,
                           unsigned height) {
    return {params, tree_version, first_write_number(tree_version + 1, params.evict_every), height};
  }

  std::size_t count() const { return writes_ + stash_ + std::size_t{height_} * bucket_size_; }
  std::size_t writes() const { return writes_; }
  unsigned height() const { return height_; }

  /// Returns which slot of the root buffer is the i-th slot of the path.
  std::uint16_t root_buffer_slot(std::size_t i) const {
    return static_cast<std::uint16_t>((first_ + i) % root_buffer_);
  }
  /// Returns whether the path covers slot `slot` of the root.
  bool covers_root(std::uint16_t slot) const {
    return slot >= root_buffer_ || offset(slot) < writes_;
  }
  /// Returns the index of slot `slot` of the path's bucket at `level`. The path must cover it.
  std::size_t index(unsigned level, std::uint16_t slot) const {
    if (level > 0) return writes_ + stash_ + std::size_t{level - 1} * bucket_size_ + slot;
    assert(covers_root(slot));
    return slot >= root_buffer_ ? writes_ + slot - root_buffer_ : offset(slot);
  }

 private:
  std::size_t offset(std::uint16_t slot) const {
    return (slot + root_buffer_ - first_) % root_buffer_;
  }

  std::size_t root_buffer_, first_, writes_, stash_, bucket_size_;
  unsigned height_;
};

/// The root's stash part as buckets, in addition to those of the tree: kStashBucket + 0, 1, ...
/// (The root itself has no bucket: its new writes lie in the root buffer.)
constexpr BucketIndex kStashBucket = BucketIndex{1} << 40;
/// Returns the buckets of a path in the order of PathSlots: the stash part, then the path to `leaf`
/// from level 1 on.
inline std::vector<BucketIndex> path_buckets(const VolumeParams& params, Leaf leaf,
                                             unsigned height) {
  std::vector<BucketIndex> buckets;
  for (unsigned i = 0; i < params.stash_buckets(); ++i) buckets.push_back(kStashBucket + i);
  for (unsigned level = 1; level <= height; ++level) buckets.push_back(bucket_on_path(leaf, level));
  return buckets;
}

}  // namespace s3oram
