// Which places of the device can be believed: those that hold content and belong to one extent
// only. In a sound vault that is every place that an extent names. Not thread-safe.
#pragma once

#include <unordered_set>
#include <vector>

#include "fused/tables/place.h"

namespace s3oram {

/// What an extent names.
struct OwnedPlace {
  BlockId place = 0;
  std::uint32_t valid = 0;
};

class HeldBlocks {
 public:
  /// `mapped`: what the device holds. `owned`, ascending: what extents name, each time they do.
  void reset(const std::vector<BlockId>& mapped, const std::vector<OwnedPlace>& owned,
             std::uint32_t block_size);

  /// Whether an extent that names the place may be read, and its block written in place or freed.
  bool good(BlockId place) const {
    const BlockId block = block_of(place);
    return block < held_.size() && held_[block] && !bad_.contains(place);
  }
  /// Whether extents contradict each other.
  bool any_bad() const { return !bad_.empty(); }
  void written(BlockId place);
  void released(BlockId block) {
    if (block < held_.size()) held_[block] = false;
  }
  /// True once for each block: to tell of it in the log.
  bool tell(BlockId place) { return told_.insert(place).second; }

 private:
  std::vector<bool> held_;
  std::unordered_set<BlockId> bad_, told_;  // places
};

}  // namespace s3oram
