// Replaces the content of a file that is truncated to nothing and written again. The tables keep
// the old content until settle(), which exchanges the two contents between two commits.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

#include "fused/cache/data_cache.h"

namespace s3oram {

/// Begins a replacement. To its users the file is empty from now on.
void DataCache::replace(Node& node) {
  Replacement replacement;
  replacement.since = timing_.now();
  const auto blocks = node.blocks;
  for (const auto& [index, block] : blocks) {
    if (block->owned && block->flushing) {
      block->former = &node;
      replacement.in_flight.push_back(block);
    }
    blocks_.cut_off(block);
    if (!block->owned && !block->flushing && block->home) release(*block->home, 0);
  }
  node.replacement = std::move(replacement);
  node.grown = 0;
  ++replacing_;
}

/// Called when a write of the old content has ended. A crash must still find that content complete.
void DataCache::written_former(CachedBlock& block, bool succeeded) {
  Node& node = *std::exchange(block.former, nullptr);
  std::erase_if(node.replacement->in_flight, [&](const auto& other) { return &*other == &block; });
  if (!succeeded) {  // the block keeps its previous content
    if (block.target != block.home) release(*block.target, block.in_flight_valid);
    return;
  }
  move_home(block);
  metadata_.extents.put({node.ino, block.index}, {*block.home, block.in_flight_valid});
  node.row.size = std::max(node.row.size, block.index * block_size_ + block.in_flight_valid);
  metadata_.inodes.put(node.ino, node.row);
}

/// Puts the new content in the place of the old one. On a full device this happens early, so that
/// the old content makes room; a crash may then leave a part of the new content.
PosixStatus DataCache::settle(Node& node) {
  if (!node.replacement) return {};
  std::vector<FileExtents::Extent> former;
  S3O_POSIX_TRY(
      metadata_.extents.scan({node.ino, 0}, [&](const ExtentKey& key, const ExtentRow& row) {
        former.emplace_back(key.index, row);
        return true;
      }));
  const Replacement replacement = std::move(*node.replacement);
  node.replacement.reset();
  --replacing_;
  ++settled_;
  std::set<BlockId> in_flight;
  for (const Handle& block : replacement.in_flight) {
    block->former = nullptr;  // written() releases its home
    in_flight.insert(*block->target);
  }
  for (const auto& [index, row] : former) {
    metadata_.extents.erase({node.ino, index});
    if (!in_flight.contains(row.block) && held.good(row.block)) release(row.block, row.valid);
  }
  for (const auto& [index, row] : replacement.extents)
    metadata_.extents.put({node.ino, index}, row);
  node.row.blocks = replacement.extents.size();
  node.lacks_extents.reset();
  node.row.size = replacement.size;
  metadata_.inodes.put(node.ino, node.row);
  return {};
}

void DataCache::settle_or_tell(Node& node) {
  if (const auto settled = settle(node); !settled)
    spdlog::error("inode {}: its new content cannot be committed yet: {}", node.ino,
                  std::strerror(settled.error()));
}

PosixStatus DataCache::complete(Node& node) {
  start_flush(node);
  if (!node.replacement) return {};
  node.replacement->closed = true;
  return node.unflushed == 0 ? settle(node) : PosixStatus();
}

}  // namespace s3oram
