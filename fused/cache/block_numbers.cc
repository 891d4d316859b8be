// Keeps freed block numbers from being reused before a commit and a backup allow it.
#include "fused/cache/block_numbers.h"

#include <utility>

#include "oramcore/base/rules.h"

namespace s3oram {

void BlockNumbers::reset(const std::vector<BlockId>& owned, std::set<BlockId> never, bool backups) {
  *this = BlockNumbers();
  never_ = std::move(never);
  backups_ = backups;
  for (const BlockId block : owned) {
    while (end_ < block) free_.insert(free_.end(), end_++);
    end_ = block + 1;
  }
}

BlockId BlockNumbers::take() {
  const auto next = [this] {
    while (!free_.empty()) {
      const BlockId block = free_.extract(free_.begin()).value();
      if (!never_.contains(block)) return block;
    }
    while (never_.contains(end_)) ++end_;
    return end_++;
  };
  const BlockId block = next();
  if (backups_ && !preparing_) fresh_.insert(block);
  return block;
}

bool BlockNumbers::release(BlockId block) {
  const bool held = backups_ && !fresh_.contains(block);
  if (!rule_holds(Rule::free_after_commit)) {
    free_.insert(block);
    return true;
  }
  released_.push_back({block, held});
  held_ += held ? 1 : 0;
  return !held;
}

void BlockNumbers::begin_commit() { committing_ = std::exchange(released_, {}); }

void BlockNumbers::end_commit(bool succeeded) {
  for (const Released& each : std::exchange(committing_, {})) {
    if (!succeeded) {
      released_.push_back(each);
      continue;
    }
    held_ -= each.held ? 1 : 0;
    if (!backups_ || fresh_.erase(each.block) > 0)
      free_.insert(each.block);
    else
      uncovered_.push_back(each.block);
  }
}

void BlockNumbers::prepare_backup() {
  preparing_ = true;
  fresh_.clear();
}

void BlockNumbers::begin_backup() {
  preparing_ = false;
  covering_ = std::exchange(uncovered_, {});
}

std::vector<BlockId> BlockNumbers::end_backup(bool succeeded) {
  preparing_ = false;
  std::vector<BlockId> covered = std::exchange(covering_, {});
  if (!succeeded) {
    uncovered_.insert(uncovered_.end(), covered.begin(), covered.end());
    return {};
  }
  fresh_.insert(covered.begin(), covered.end());
  for (const BlockId block : covered) released_.push_back({block, true});
  held_ += covered.size();
  return covered;
}

}  // namespace s3oram
