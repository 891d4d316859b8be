#include "fused/block_numbers.h"

#include <utility>

#include "oramcore/base/rules.h"

namespace s3oram {

void BlockNumbers::reset(const std::vector<BlockId>& owned) {
  *this = BlockNumbers();
  for (const BlockId block : owned) {
    while (end_ < block) free_.insert(free_.end(), end_++);
    end_ = block + 1;
  }
}

BlockId BlockNumbers::take() {
  if (free_.empty()) return end_++;
  return free_.extract(free_.begin()).value();
}

void BlockNumbers::release(BlockId block) {
  if (rule_holds(Rule::free_after_commit))
    released_.push_back(block);
  else
    free_.insert(block);
}

void BlockNumbers::begin_commit() { committing_ = std::exchange(released_, {}); }

void BlockNumbers::end_commit(bool succeeded) {
  if (succeeded)
    free_.insert(committing_.begin(), committing_.end());
  else
    released_.insert(released_.end(), committing_.begin(), committing_.end());
  committing_.clear();
}

}  // namespace s3oram
