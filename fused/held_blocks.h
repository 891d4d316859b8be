// Which blocks of the device can be believed: those that hold content and belong to one extent
// only. In a sound vault that is every block that an extent names. Not thread-safe.
#pragma once

#include <unordered_set>
#include <vector>

#include "oramcore/client/block_device.h"

namespace s3oram {

class HeldBlocks {
 public:
  /// `mapped`: what the device holds. `owned`, ascending: what extents name, each time they do.
  void reset(const std::vector<BlockId>& mapped, const std::vector<BlockId>& owned);

  /// Whether an extent that names the block may be read, and its block written in place or freed.
  bool good(BlockId block) const {
    return block < held_.size() && held_[block] && !shared_.contains(block);
  }
  void written(BlockId block);
  void released(BlockId block) {
    if (block < held_.size()) held_[block] = false;
  }
  /// True once for each block: to tell of it in the log.
  bool tell(BlockId block) { return told_.insert(block).second; }

 private:
  std::vector<bool> held_;
  std::unordered_set<BlockId> shared_, told_;
};

}  // namespace s3oram
