// The four tables of the file system in vault.db. They are read through a connection of their own
// and written through the device's; WAL lets both run at the same time. Not thread-safe; the
// function that begin_commit() returns runs on the device's database thread.
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
  /// Opens the reader and, if they exist, the tables. If is_new() is true afterwards, there are no
  /// tables yet: run a commit, which creates them, and call open_tables(). Errors: unsupported (a
  /// newer format), damaged_vault (a table is missing or cannot be read).
  Status open(const std::string& path, Disk& disk = system_disk());
  /// Checks that this program knows the format of the tables, without opening them. If the database
  /// is sealed, its tables cannot be read yet, so the format of the seals is checked instead.
  /// open() reports everything else that is wrong. Errors: unsupported.
  static Status require_known_format(const std::string& path);
  bool is_new() const { return is_new_; }
  Status open_tables();
  /// Reads all committed rows, and notes in `damage` what is wrong with them. Errors: damaged_vault
  /// (also if the index of packs cannot be read, because commits would then fail).
  Status examine();

  /// The damage that was found in the tables so far.
  TableDamage damage;
  Table<InodeTable> inodes;
  Table<DentryTable> dentries;
  Table<ExtentTable> extents;
  Table<XattrTable> xattrs;

  /// Returns the work of a commit that begins. `reserve`: the commit reserves the inode numbers
  /// below it (inode_numbers.h).
  std::function<Status(Database&)> begin_commit(std::optional<Ino> reserve = std::nullopt);
  void end_commit(bool succeeded);
  /// Return how many rows, and about how many bytes, wait to be committed.
  std::size_t uncommitted() const;
  std::size_t uncommitted_bytes() const;

  // These functions read committed rows, for mount and for status.

  /// Returns the inodes that were unlinked: no name leads to them, and they contain no names.
  Result<std::vector<Ino>> orphans();
  /// Returns the places that extents name, ascending, once for each extent; kImpossibleBlock for a
  /// damaged one.
  Result<std::vector<OwnedPlace>> owned_places();
  /// Returns the extents whose pieces lie in this pack.
  Result<std::vector<ExtentKey>> pieces(BlockId pack);
  /// Returns the largest number of a new inode (rows.h) that any row of any table names. If damage
  /// hides rows, notes the damage, and returns a number far above those that can be read.
  Result<Ino> largest_ino();
  /// Calls read_reserved().
  Result<Ino> reserved_inodes() { return read_reserved(reader_); }
  Result<std::int64_t> number(std::string_view sql);

 private:
  Status examine_packs();
  Result<std::vector<std::uint64_t>> numbers(std::string_view sql);
  /// Returns `read(row)` for each row that `sql` selects.
  template <class Row, class Read>
  Result<std::vector<Row>> all(std::string_view sql, Read read);

  bool is_new_ = false;
  bool checksums_ = false;  // whether the tables have a column for them
};

}  // namespace s3oram
