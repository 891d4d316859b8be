// Finds the blocks of a file, and tells holes from extents that damage may have hidden.
#include "fused/cache/file_extents.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace s3oram {
namespace {

/// Replaces the length in a damaged row with a whole block, because the length cannot be trusted
/// either.
ExtentRow believed(ExtentRow row, std::uint32_t block_size) {
  if (row.block == kImpossibleBlock) row.valid = block_size;
  return row;
}

}  // namespace

Posix<std::optional<ExtentRow>> FileExtents::find(const Node& node, std::uint64_t index) const {
  if (!node.replacement) {
    S3O_POSIX_GET(row, metadata_.extents.find({node.ino, index}));
    if (row) row = believed(*row, block_size_);
    return row;
  }
  const auto found = node.replacement->extents.find(index);
  if (found == node.replacement->extents.end()) return std::optional<ExtentRow>();
  return std::optional<ExtentRow>(found->second);
}

Posix<std::optional<FileExtents::Extent>> FileExtents::next(const Node& node,
                                                            std::uint64_t index) const {
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

Posix<bool> FileExtents::is_hole(Node& node, std::uint64_t index) const {
  if (!(damaged || metadata_.damage.any()) || node.replacement ||
      index * block_size_ >= node.row.size)
    return true;
  S3O_POSIX_TRY(metadata_.extents.find({node.ino, index}));  // damage may hide the extent
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

PosixStatus FileExtents::need_hole(Node& node, std::uint64_t index) {
  S3O_POSIX_GET(is_so, is_hole(node, index));
  return is_so ? PosixStatus() : lost(node, index, kImpossibleBlock);
}

PosixStatus FileExtents::lost(const Node& node, std::uint64_t index, BlockId place) {
  if (held_.tell(place == kImpossibleBlock ? ~node.ino : place))
    spdlog::error(
        "inode {}: its bytes from {} on are lost, or claimed by another file too; unmount and run "
        "s3oramfs fsck",
        node.ino, index * block_size_);
  return posix_error(EIO);
}

void FileExtents::put(Node& node, std::uint64_t index, const ExtentRow& row) {
  if (node.replacement)
    node.replacement->extents.insert_or_assign(index, row);
  else
    metadata_.extents.put({node.ino, index}, row);
  node.lacks_extents.reset();
}

void FileExtents::erase(Node& node, std::uint64_t index, const ExtentRow& row) {
  node.lacks_extents.reset();
  if (node.replacement) {
    node.replacement->extents.erase(index);
  } else {
    metadata_.extents.erase({node.ino, index});
    if (node.row.blocks > 0 && row.block != kImpossibleBlock) --node.row.blocks;
    metadata_.inodes.put(node.ino, node.row);  // a commit may come before all are erased
  }
}

void FileExtents::store_size(Node& node, std::uint64_t reach) {
  std::uint64_t& stored = node.replacement ? node.replacement->size : node.row.size;
  const std::uint64_t size =
      node.unflushed == 0 ? node.size : std::min(node.size, std::max(stored, reach));
  if (size == stored) return;
  stored = size;
  if (!node.replacement) metadata_.inodes.put(node.ino, node.row);
}

}  // namespace s3oram
