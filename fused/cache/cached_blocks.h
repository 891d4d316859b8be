// The blocks of files in memory: which blocks there are, how much memory they take, and which are
// evicted first.
#pragma once

#include "fused/cache/node.h"
#include "fused/cache/packs.h"

namespace s3oram {

/// Used under the mutex of the file system.
class CachedBlocks {
 public:
  using Handle = std::shared_ptr<CachedBlock>;
  using List = std::list<Handle>;

  CachedBlocks(const Packs& packs, std::uint32_t block_size, std::size_t limit)
      : packs_(packs), block_size_(block_size), limit_(limit) {}

  /// Adds an empty block to a file that has no block `index` in memory.
  Handle add(Node& node, std::uint64_t index);
  /// Updates all counts and lists from the block's state. Call it after every change of that state.
  void account(const Handle& block);
  /// Detaches the block from its file, so that it is no longer found. A transfer in flight
  /// continues.
  void cut_off(const Handle& block);
  /// Marks the block as the one used most recently.
  void used(const Handle& block) {
    if (block->list == &clean_) clean_.splice(clean_.end(), clean_, block->place);
  }
  /// Drops blocks that are not dirty, the least recently used first, while memory is above the
  /// limit.
  void evict();
  /// Drops the blocks of a file that are not dirty.
  void drop_clean(Node& node);

  std::size_t limit() const { return limit_; }
  void set_limit(std::size_t bytes) { limit_ = bytes; }
  /// Returns the bytes in memory, including those of packs.
  std::size_t bytes() const {
    return bytes_ + (clean_.size() + dirty_.size()) * kOverhead + packs_.bytes_in_memory();
  }
  std::size_t dirty_bytes() const { return dirty_bytes_; }
  std::size_t dirty_memory() const { return dirty_bytes_ + dirty_.size() * kOverhead; }
  /// Returns how many bytes of room the device must find for data that waits to be written.
  std::uint64_t room_bytes() const { return room_bytes_; }
  const List& dirty() const { return dirty_; }  // the oldest first

 private:
  /// The memory that a block takes besides its data, roughly. It includes the node, because most
  /// files have one block.
  static constexpr std::size_t kOverhead = 768;

  const Packs& packs_;
  const std::uint32_t block_size_;
  std::size_t limit_;
  List clean_;  // least recently used first; may be evicted
  List dirty_;  // oldest first
  std::size_t bytes_ = 0, dirty_bytes_ = 0;
  std::size_t room_bytes_ = 0;  // the part of dirty_bytes_ for which the device needs room
};

}  // namespace s3oram
