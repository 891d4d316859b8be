// The position map (Table 2 of the paper: pm), in flat arrays by block number, and its inverse:
// which blocks lie in a bucket, and which row of the database says so. Not thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "oramcore/client/bucket_row.h"
#include "oramcore/oram/block_device.h"
#include "oramcore/protocol/plan.h"

namespace s3oram {

/// Where a block is. The database keeps its 64-bit form, in which "at the leaf" has a value of its
/// own instead of a level, so that growing the tree changes no row.
struct Position {
  enum class Kind : std::uint8_t { unmapped, tree, stash };
  Kind kind = Kind::unmapped;
  Leaf leaf = 0;
  std::uint8_t level = 0;
  std::uint16_t slot = 0;
  std::uint64_t version = 0;  // the number of the access that wrote the block
};

class PositionMap {
 public:
  explicit PositionMap(unsigned height = 1) { reset(height); }
  void reset(unsigned height);

  Position get(BlockId block) const;
  /// Kind::unmapped forgets the block.
  void set(BlockId block, const Position& position);
  /// The tree has grown by a level: blocks at the leaves lie one level deeper now, in the same
  /// slots (serverd/oram/store_database.h, commit()).
  void grow();

  BucketContents contents(BucketIndex bucket) const;
  BucketRow row(BucketIndex bucket) const;
  /// Moves a block in the tree to another place on its path, and adds to `rows` the buckets whose
  /// rows must be written: both buckets and, if the row of one is from before the tree grew, that
  /// row's bucket and the leaf buckets in which its blocks now lie.
  void move(BlockId block, unsigned level, std::uint16_t slot, std::set<BucketIndex>& rows);
  /// Records that the row of this inner bucket was written when it was a leaf.
  void set_undivided(BucketIndex bucket) { undivided_[bucket] = true; }
  unsigned height() const { return height_; }
  std::uint64_t mapped() const { return mapped_; }
  /// Above the numbers of all blocks that are mapped.
  BlockId end() const { return packed_.size(); }
  std::vector<BlockId> blocks() const;

  /// Converts a position to the database's form, without its version, and back.
  static std::uint64_t pack(const Position& position, unsigned height);
  static Position unpack(std::uint64_t packed, std::uint64_t version, unsigned height);

 private:
  void add_changed_rows(BucketIndex bucket, std::set<BucketIndex>& rows);
  void enter(BlockId block, const Position& position);
  void leave(BlockId block, const Position& position);

  unsigned height_ = 0;
  std::uint64_t mapped_ = 0;
  std::vector<std::uint64_t> packed_;
  std::vector<std::uint64_t> versions_;
  std::vector<std::vector<std::uint32_t>> buckets_;  // blocks of each bucket, in no order
  // By bucket: it was a leaf before the tree grew, and no eviction has changed it since. There is
  // none below another.
  std::vector<bool> undivided_;
};

}  // namespace s3oram
