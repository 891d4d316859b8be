// A set of block numbers. These are dense (block_device.h), so the set keeps one bit for each.
#pragma once

#include <cstddef>
#include <vector>

#include "oramcore/oram/block_device.h"

namespace s3oram {

/// Not thread-safe.
class BlockSet {
 public:
  bool contains(BlockId block) const { return block < bits_.size() && bits_[block]; }
  void insert(BlockId block) {
    if (block >= bits_.size()) bits_.resize(block + 1);
    if (!bits_[block]) ++count_;
    bits_[block] = true;
  }
  void erase(BlockId block) {
    if (!contains(block)) return;
    bits_[block] = false;
    --count_;
  }
  std::size_t size() const { return count_; }
  /// Returns a number greater than any that the set has ever held.
  BlockId end() const { return bits_.size(); }

 private:
  std::vector<bool> bits_;
  std::size_t count_ = 0;
};

}  // namespace s3oram
