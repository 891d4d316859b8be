// All that a file system remembers besides data: its four tables in vault.db. Reads go through a
// connection of their own, beside the device's, which writes: WAL lets both run at once.
// Not thread-safe; the function that begin_commit() returns runs on the device's database thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fused/tables/held_blocks.h"
#include "fused/tables/inode_numbers.h"
#include "fused/tables/rows.h"
#include "fused/tables/table.h"

namespace s3oram {

class Metadata {
  Database reader_;  // outlives the tables' statements

 public:
  /// Opens the reader. `is_new()` afterwards: there are no tables yet; run a commit, which makes
  /// them, and call open_tables(). Errors: unsupported (a newer format), damaged_vault (a table is
  /// missing or cannot be read).
  Status open(const std::string& path, Disk& disk = system_disk());
  /// Whether the tables are of the format that this program knows, without opening them; of a
  /// sealed database, whose tables cannot be read yet, whether its seals are. What else may be
  /// wrong with them, open() tells. Errors: unsupported.
  static Status require_known_format(const std::string& path);
  bool is_new() const { return is_new_; }
  Status open_tables();
  /// Reads all committed rows, and notes in `damage` what is wrong with them.
  Status examine();

  /// What was found to be wrong with the tables so far.
  TableDamage damage;
  Table<InodeTable> inodes;
  Table<DentryTable> dentries;
  Table<ExtentTable> extents;
  Table<XattrTable> xattrs;

  /// `reserve`: inode numbers below it are reserved (inode_numbers.h).
  std::function<Status(Database&)> begin_commit(std::optional<Ino> reserve = std::nullopt);
  void end_commit(bool succeeded);
  /// Rows that wait for the next commit.
  std::size_t uncommitted() const;
  std::size_t uncommitted_bytes() const;

  /// Of the committed rows: for mount, and for status.
  /// Inodes that were unlinked: no name leads to them, and they contain none.
  Result<std::vector<Ino>> orphans();
  /// Ascending, as often as extents name them; a damaged extent's is kImpossibleBlock.
  Result<std::vector<OwnedPlace>> owned_places();
  /// Whose pieces lie in a pack.
  Result<std::vector<ExtentKey>> pieces(BlockId pack);
  /// No row of any table has a larger one that is new (rows.h). Notes damage that hides rows, and
  /// keeps well above those that can be read then.
  Result<Ino> largest_ino();
  /// As read_reserved().
  Result<Ino> reserved_inodes() { return read_reserved(reader_); }
  Result<std::int64_t> number(std::string_view sql);

 private:
  Result<std::vector<std::uint64_t>> numbers(std::string_view sql);
  /// What `read` makes of each row.
  template <class Row, class Read>
  Result<std::vector<Row>> all(std::string_view sql, Read read);

  bool is_new_ = false;
  bool checksums_ = false;  // the tables have them, so far as their readers know
};

}  // namespace s3oram
