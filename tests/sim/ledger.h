// The contents that each block of a device may hold: all contents written to it, oldest first. The
// first one is the newest that a commit has covered.
#pragma once

#include <deque>
#include <map>

#include "oramcore/oram/block_device.h"

namespace s3oram::test {

class Ledger {
 public:
  explicit Ledger(std::size_t block_size) : size_(block_size) {}

  /// Records that a write has begun. Returns its number.
  std::uint64_t wrote(BlockId block, Bytes content) {
    entries(block).push_back({std::move(content), false, ++last_});
    return last_;
  }
  /// The write was refused, and has left no trace.
  void refused(BlockId block, std::uint64_t number) {
    std::erase_if(entries(block), [&](const Entry& entry) { return entry.number == number; });
    entries(block);
  }
  std::uint64_t last_write() const { return last_; }
  void acknowledged(BlockId block, std::uint64_t number) {
    for (Entry& entry : entries(block)) entry.acknowledged |= entry.number == number;
  }
  /// Returns the newest acknowledged content of each block, which a commit that begins now will
  /// cover.
  std::map<BlockId, std::uint64_t> snapshot() const {
    std::map<BlockId, std::uint64_t> numbers;
    for (const auto& [block, list] : blocks_)
      for (const Entry& entry : list)
        if (entry.acknowledged) numbers[block] = entry.number;
    return numbers;
  }
  void committed(const std::map<BlockId, std::uint64_t>& numbers) {
    for (const auto& [block, number] : numbers) {
      auto& list = entries(block);
      while (list.size() > 1 && list.front().number < number) list.pop_front();
    }
  }
  /// The client died: writes that were acknowledged and not committed may be lost.
  void crashed() {
    for (auto& [block, list] : blocks_)
      for (Entry& entry : list) entry.acknowledged = false;
  }
  /// The client died and its database with it; what the servers have acknowledged is found there.
  void lost() {
    for (auto& [block, list] : blocks_)
      for (auto at = list.rbegin(); at != list.rend(); ++at)
        if (at->acknowledged) {
          list.erase(list.begin(), std::next(at).base());
          break;
        }
    crashed();
  }
  /// Returns the newest content of a write up to number `last`.
  const Bytes& newest(BlockId block, std::uint64_t last = ~std::uint64_t{0}) {
    const auto& list = entries(block);
    auto at = list.rbegin();
    while (at->number > last && std::next(at) != list.rend()) ++at;
    return at->content;
  }
  /// Returns whether the block may hold this content after a crash; only reading shows which one it
  /// holds.
  bool may_be(BlockId block, const Bytes& content) {
    for (const Entry& entry : entries(block))
      if (entry.content == content) return true;
    return false;
  }
  void is(BlockId block, Bytes content) { entries(block) = {{std::move(content), true, ++last_}}; }

 private:
  struct Entry {
    Bytes content;
    bool acknowledged = false;
    std::uint64_t number = 0;
  };
  std::deque<Entry>& entries(BlockId block) {
    auto& list = blocks_[block];
    if (list.empty()) list.push_back({Bytes(size_), true, 0});
    return list;
  }
  std::size_t size_;
  std::uint64_t last_ = 0;
  std::map<BlockId, std::deque<Entry>> blocks_;
};

}  // namespace s3oram::test
