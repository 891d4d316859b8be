// Which block numbers of the device files may take. Numbers stay dense: the lowest free one is
// taken first. A freed number is taken again only after the commit that holds its freeing, since
// until then a power cut would bring its old owner back. Not thread-safe.
#pragma once

#include <set>
#include <vector>

#include "oramcore/client/block_device.h"

namespace s3oram {

class BlockNumbers {
 public:
  /// `owned` ascending: the blocks that extents name. `never`: numbers that are not given out.
  void reset(const std::vector<BlockId>& owned, std::set<BlockId> never = {});

  BlockId take();
  /// The number's extent has been deleted, in the changes that the next commit takes along.
  void release(BlockId block);

  void begin_commit();
  void end_commit(bool succeeded);

  /// Numbers that are taken, or not free yet.
  std::uint64_t used() const { return end_ - free_.size(); }
  bool uncommitted() const { return !released_.empty(); }

 private:
  BlockId end_ = 0;  // all numbers from here on are free
  std::set<BlockId> free_;
  std::set<BlockId> never_;
  std::vector<BlockId> released_;    // that no commit holds yet
  std::vector<BlockId> committing_;  // that the running commit holds
};

}  // namespace s3oram
