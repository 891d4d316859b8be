#include "fused/held_blocks.h"

namespace s3oram {

void HeldBlocks::reset(const std::vector<BlockId>& mapped, const std::vector<BlockId>& owned) {
  *this = HeldBlocks();
  if (!mapped.empty()) held_.resize(mapped.back() + 1);
  for (const BlockId block : mapped) held_[block] = true;
  for (std::size_t i = 1; i < owned.size(); ++i)
    if (owned[i] == owned[i - 1]) shared_.insert(owned[i]);
}

void HeldBlocks::written(BlockId block) {
  if (block >= held_.size()) held_.resize(block + 1);
  held_[block] = true;
}

}  // namespace s3oram
