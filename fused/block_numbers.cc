#include "fused/block_numbers.h"

#include <utility>

#include "oramcore/base/rules.h"

namespace s3oram {

void BlockNumbers::reset(const std::vector<BlockId>& owned, std::set<BlockId> never) {
  *this = BlockNumbers();
  never_ = std::move(never);
  for (const BlockId block : owned) {
    while (end_ < block) free_.insert(free_.end(), end_++);
    end_ = block + 1;
  }
}

BlockId BlockNumbers::take() {
  while (!free_.empty()) {
    const BlockId block = free_.extract(free_.begin()).value();
    if (!never_.contains(block)) return block;
  }
  while (never_.contains(end_)) ++end_;
  return end_++;
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
