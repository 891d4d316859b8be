// The extents of a file as users see it: those of the tables, or those of the content that replaces
// the one in the tables.
#pragma once

#include <optional>
#include <utility>

#include "fused/cache/node.h"
#include "fused/cache/posix.h"
#include "fused/tables/held_blocks.h"
#include "fused/tables/metadata.h"

namespace s3oram {

/// Used under the mutex of the file system.
class FileExtents {
 public:
  FileExtents(Metadata& metadata, HeldBlocks& held, std::uint32_t block_size)
      : metadata_(metadata), held_(held), block_size_(block_size) {}

  using Extent = std::pair<std::uint64_t, ExtentRow>;

  /// Returns the extent of block `index`; std::nullopt for a hole. A damaged row names
  /// kImpossibleBlock.
  Posix<std::optional<ExtentRow>> find(const Node& node, std::uint64_t index) const;
  /// Returns the first extent >= `index`. Ignores a damaged row whose index is larger than any
  /// file's.
  Posix<std::optional<Extent>> next(const Node& node, std::uint64_t index) const;
  /// Returns an error unless block `index` is certainly a hole. While extents of the vault are
  /// damaged, a file with fewer sound extents than its row counts may have data where it seems to
  /// have none, because the key of an extent may have changed.
  PosixStatus need_hole(Node& node, std::uint64_t index);
  /// Returns the error for lost data, and logs the loss once for each place, or once for each file
  /// if the place is not known.
  PosixStatus lost(const Node& node, std::uint64_t index, BlockId place);

  void put(Node& node, std::uint64_t index, const ExtentRow& row);
  /// Erases the extent. If its row is damaged, the file's count of extents is kept, because a
  /// different extent may be the missing one.
  void erase(Node& node, std::uint64_t index, const ExtentRow& row);
  /// Sets the size that the next commit stores. If nothing is unflushed, that is the size that
  /// users see; otherwise it is at most that size, and at least `reach`.
  void store_size(Node& node, std::uint64_t reach = 0);

  bool damaged = false;  // extents are damaged or missing, as far as this mount knows

 private:
  Posix<bool> is_hole(Node& node, std::uint64_t index) const;

  Metadata& metadata_;
  HeldBlocks& held_;
  const std::uint32_t block_size_;
};

}  // namespace s3oram
