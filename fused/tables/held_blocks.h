// Keeps track of the places on the device that extents may use: those that hold content and belong
// to exactly one extent. In a sound vault these are all the places that extents name. Not
// thread-safe.
#pragma once

#include <unordered_set>
#include <vector>

#include "fused/tables/place.h"

namespace s3oram {

/// A place that an extent names.
struct OwnedPlace {
  BlockId place = 0;
  std::uint32_t valid = 0;
};

class HeldBlocks {
 public:
  /// `mapped` are the blocks that the device holds. `owned` are the places that extents name,
  /// ascending, once for each extent.
  void reset(const std::vector<BlockId>& mapped, const std::vector<OwnedPlace>& owned,
             std::uint32_t block_size);

  /// Returns whether an extent with this place may be read, and its block written in place or
  /// freed.
  bool good(BlockId place) const {
    const BlockId block = block_of(place);
    return block < held_.size() && held_[block] && !bad_.contains(place);
  }
  /// Returns whether any extents contradict each other.
  bool any_bad() const { return !bad_.empty(); }
  void written(BlockId place);
  void released(BlockId block) {
    if (block < held_.size()) held_[block] = false;
  }
  /// Returns true once for each place, so that the log mentions it once.
  bool tell(BlockId place) { return told_.insert(place).second; }

 private:
  std::vector<bool> held_;
  std::unordered_set<BlockId> bad_, told_;  // places
};

}  // namespace s3oram
