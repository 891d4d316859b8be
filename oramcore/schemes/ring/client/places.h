// Tracks where every block is, which blocks lie in a bucket and which in the top, and what the
// server holds of each bucket. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "oramcore/oram/block_device.h"
#include "oramcore/schemes/ring/client/eviction_plan.h"
#include "oramcore/schemes/ring/client/top_cache.h"
#include "oramcore/schemes/ring/protocol/ring_messages.h"

namespace s3oram::ring {

struct Place {
  /// lost: the block was written, and its rows are no longer available.
  enum class Kind : std::uint8_t { unmapped, tree, top, lost };
  Kind kind = Kind::unmapped;
  Leaf leaf = 0;
  std::uint64_t version = 0;  // the number of the access that wrote the block
  // In the tree:
  std::uint8_t level = 0;
  std::uint16_t slot = 0;
  // In the top:
  CacheSlot cache_slot = 0;
  Turn turn = 0;  // the turn whose slot of the log also holds the block
  friend bool operator==(const Place&, const Place&) = default;

  BucketIndex bucket() const { return bucket_on_path(leaf, level); }
  bool has_leaf() const { return kind == Kind::tree || kind == Kind::top; }
};

class Places {
 public:
  Place get(BlockId block) const { return block < places_.size() ? places_[block] : Place{}; }
  /// Sets the place of a block; Kind::unmapped forgets the block.
  void set(BlockId block, const Place& place);

  /// Returns the blocks in a bucket, in any order.
  std::vector<BlockId> in_bucket(BucketIndex bucket) const;
  /// Returns the top's blocks by the turns that logged them, oldest first.
  const std::map<Turn, BlockId>& top() const { return top_; }
  Candidate candidate(BlockId block) const;

  std::uint64_t mapped() const { return mapped_; }
  std::vector<BlockId> blocks() const;

 private:
  std::vector<Place> places_;
  std::unordered_map<BucketIndex, std::vector<BlockId>> buckets_;
  std::map<Turn, BlockId> top_;
  std::uint64_t mapped_ = 0;
};

/// The version of a bucket that the server holds.
struct HeldBucket {
  VersionStamp stamp = 0;  // 0 if nothing was ever written to the bucket
  std::uint32_t touches = 0;
  friend bool operator==(const HeldBucket&, const HeldBucket&) = default;
};

}  // namespace s3oram::ring
