// Contents that replace others: a file is truncated to nothing and written anew. The tables keep
// the former content until settle(), which exchanges the two between two commits.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

#include "fused/cache/data_cache.h"

namespace s3oram {

// ---- the extents of what users see -------------------------------------------------------------

namespace {

/// What a damaged row says of the place says nothing of how much is there either.
ExtentRow believed(ExtentRow row, std::uint32_t block_size) {
  if (row.block == kImpossibleBlock) row.valid = block_size;
  return row;
}

}  // namespace

Posix<std::optional<ExtentRow>> DataCache::find_extent(const Node& node,
                                                       std::uint64_t index) const {
  if (!node.replacement) {
    S3O_POSIX_GET(row, metadata_.extents.find({node.ino, index}));
    if (row) row = believed(*row, block_size_);
    return row;
  }
  const auto found = node.replacement->extents.find(index);
  if (found == node.replacement->extents.end()) return std::optional<ExtentRow>();
  return std::optional<ExtentRow>(found->second);
}

/// The first one >= index; none of a damaged row that no file reaches.
Posix<std::optional<DataCache::Extent>> DataCache::next_extent(const Node& node,
                                                               std::uint64_t index) {
  std::optional<Extent> next;
  if (node.replacement) {
    const auto found = node.replacement->extents.lower_bound(index);
    if (found != node.replacement->extents.end()) next = *found;
    return next;
  }
  S3O_POSIX_TRY(
      metadata_.extents.scan({node.ino, index}, [&](const ExtentKey& key, const ExtentRow& row) {
        if (key.index <= kLargestFile / block_size_)
          next.emplace(key.index, believed(row, block_size_));
        return false;
      }));
  return next;
}

/// While extents of the vault are damaged, a file that has fewer sound ones than it counts may have
/// data where it seems to have none: it may be that key which has changed.
Posix<bool> DataCache::is_hole(Node& node, std::uint64_t index) {
  if (!(extents_damaged || metadata_.damage.any()) || node.replacement ||
      index * block_size_ >= node.row.size)
    return true;
  S3O_POSIX_TRY(metadata_.extents.find({node.ino, index}));  // a damaged row may hide it
  if (!node.lacks_extents) {
    std::uint64_t extents = 0;
    S3O_POSIX_TRY(
        metadata_.extents.scan({node.ino, 0}, [&](const ExtentKey&, const ExtentRow& row) {
          if (row.block != kImpossibleBlock) ++extents;
          return true;
        }));
    node.lacks_extents = extents < node.row.blocks;
  }
  return !*node.lacks_extents;
}

void DataCache::put_extent(Node& node, std::uint64_t index, const ExtentRow& row) {
  if (node.replacement)
    node.replacement->extents.insert_or_assign(index, row);
  else
    metadata_.extents.put({node.ino, index}, row);
  node.lacks_extents.reset();
}

/// A damaged row goes on being counted: it may be another one that is missing.
void DataCache::erase_extent(Node& node, std::uint64_t index, const ExtentRow& row) {
  node.lacks_extents.reset();
  if (node.replacement) {
    node.replacement->extents.erase(index);
  } else {
    metadata_.extents.erase({node.ino, index});
    if (node.row.blocks > 0 && row.block != kImpossibleBlock) --node.row.blocks;
    metadata_.inodes.put(node.ino, node.row);  // a commit may come before the operation ends
  }
}

/// Brings the size that commits in line with what users see, as far as data is acknowledged: all of
/// it, or all up to `reach`.
void DataCache::store_size(Node& node, std::uint64_t reach) {
  std::uint64_t& stored = node.replacement ? node.replacement->size : node.row.size;
  const std::uint64_t size =
      node.unflushed == 0 ? node.size : std::min(node.size, std::max(stored, reach));
  if (size == stored) return;
  stored = size;
  if (!node.replacement) metadata_.inodes.put(node.ino, node.row);
}

// ---- replacing ---------------------------------------------------------------------------------

/// The file is empty for its users from now on.
void DataCache::replace(Node& node) {
  Replacement replacement;
  replacement.since = timing_.now();
  const auto blocks = node.blocks;
  for (const auto& [index, block] : blocks) {
    if (block->owned && block->flushing) {
      block->former = &node;
      replacement.in_flight.push_back(block);
    }
    cut_off(block);
    if (!block->owned && !block->flushing && block->home) release(*block->home, 0);
  }
  node.replacement = std::move(replacement);
  node.grown = 0;
  ++replacing_;
}

/// A write of the former content has ended: it is part of what a crash leaves.
void DataCache::written_former(CachedBlock& block, bool succeeded) {
  Node& node = *std::exchange(block.former, nullptr);
  std::erase_if(node.replacement->in_flight, [&](const auto& other) { return &*other == &block; });
  if (!succeeded) {  // the block holds what it held before
    if (block.target != block.home) release(*block.target, block.in_flight_valid);
    return;
  }
  move_home(block);
  metadata_.extents.put({node.ino, block.index}, {*block.home, block.in_flight_valid});
  node.row.size = std::max(node.row.size, block.index * block_size_ + block.in_flight_valid);
  metadata_.inodes.put(node.ino, node.row);
}

/// On a full device what a file replaces makes room for what replaces it: a crash may then leave a
/// part of the new content.
PosixStatus DataCache::settle(Node& node) {
  if (!node.replacement) return {};
  std::vector<Extent> former;
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
    spdlog::error("inode {}: its new content waits: {}", node.ino, std::strerror(settled.error()));
}

PosixStatus DataCache::complete(Node& node) {
  start_flush(node);
  if (!node.replacement) return {};
  node.replacement->closed = true;
  return node.unflushed == 0 ? settle(node) : PosixStatus();
}

}  // namespace s3oram
