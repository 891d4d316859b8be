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

/// The place of a block. The database stores it in a 64-bit form, in which "at the leaf" has a
/// value of its own instead of a level, so that no row changes when the tree grows.
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
  /// Sets the position of a block; Kind::unmapped forgets the block.
  void set(BlockId block, const Position& position);
  /// Records that the tree has grown by a level: blocks at the leaves now lie one level deeper, in
  /// the same slots (serverd/oram/store_database.h, commit()).
  void grow();

  BucketContents contents(BucketIndex bucket) const;
  BucketRow row(BucketIndex bucket) const;
  /// Moves a block in the tree to another place on its path, and adds to `rows` the buckets whose
  /// rows must be written: the old and the new bucket. If one of these has a row from before the
  /// tree grew, also adds the bucket of that row and the leaf buckets in which its blocks now lie.
  void move(BlockId block, unsigned level, std::uint16_t slot, std::set<BucketIndex>& rows);
  /// Records that the row of this inner bucket was written when it was a leaf.
  void set_undivided(BucketIndex bucket) { undivided_[bucket] = true; }
  unsigned height() const { return height_; }
  std::uint64_t mapped() const { return mapped_; }
  /// Returns a number greater than those of all mapped blocks.
  BlockId end() const { return packed_.size(); }
  std::vector<BlockId> blocks() const;

  /// Converts a position to its form in the database, which lacks the version.
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
  std::vector<std::vector<std::uint32_t>> buckets_;  // blocks of each bucket, in any order
  // By bucket: it was a leaf before the tree grew, and no eviction has changed it since. No such
  // bucket lies below another.
  std::vector<bool> undivided_;
};

}  // namespace s3oram
