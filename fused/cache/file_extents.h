// The extents of what users see of a file: those of the tables, or of the content that replaces it.
#pragma once

#include <optional>
#include <utility>

#include "fused/cache/node.h"
#include "fused/cache/posix.h"
#include "fused/tables/held_blocks.h"
#include "fused/tables/metadata.h"

namespace s3oram {

/// Under the mutex of the file system.
class FileExtents {
 public:
  FileExtents(Metadata& metadata, HeldBlocks& held, std::uint32_t block_size)
      : metadata_(metadata), held_(held), block_size_(block_size) {}

  using Extent = std::pair<std::uint64_t, ExtentRow>;

  /// A damaged row names kImpossibleBlock.
  Posix<std::optional<ExtentRow>> find(const Node& node, std::uint64_t index) const;
  /// Returns the first extent >= index. Ignores a damaged row with an index that no file reaches.
  Posix<std::optional<Extent>> next(const Node& node, std::uint64_t index) const;
  /// Returns an error unless the file has no data there. While extents of the vault are damaged, a
  /// file with fewer sound extents than it counts may have data where it seems to have none,
  /// because the key of that extent may have changed.
  PosixStatus need_hole(Node& node, std::uint64_t index);
  /// Returns the error for data that is lost, and logs it once for each place, or for each file if
  /// the place is not known.
  PosixStatus lost(const Node& node, std::uint64_t index, BlockId place);

  void put(Node& node, std::uint64_t index, const ExtentRow& row);
  /// The count of the file stays if the row is damaged, because another extent may be the missing
  /// one.
  void erase(Node& node, std::uint64_t index, const ExtentRow& row);
  /// Sets the size that commits: the size that users see if nothing is unflushed, otherwise no more
  /// than that and at least as far as `reach`.
  void store_size(Node& node, std::uint64_t reach = 0);

  bool damaged = false;  // extents are damaged or missing, as far as this mount knows

 private:
  Posix<bool> is_hole(Node& node, std::uint64_t index) const;

  Metadata& metadata_;
  HeldBlocks& held_;
  const std::uint32_t block_size_;
};

}  // namespace s3oram
