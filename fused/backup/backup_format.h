// The format of a backup of the file tables (docs/formats.md): a dump of their rows, cut into parts
// of one block each.
//
//   block   "s3oback1" 8 · identity 16 · generation 8 · time 8 · index 4 · count 4 · used 4 · part
//   dump    rows: table 1 · a value for each of its columns; then 0; then read_reserved(), a value
//   value   0: null; 1 + n: an integer of n bytes, zigzag; 10: a text, 11: a blob (length 4, bytes)
//
// Tables: 1 inodes, 2 dentries, 3 extents, 4 xattrs, columns as in rows.h. Dumps of older versions
// end before the last value, which programs of these versions do not read.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "fused/tables/inode_numbers.h"
#include "fused/tables/table_reader.h"
#include "oramcore/base/bytes.h"
#include "oramcore/base/error.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {

struct BackupPart {
  std::array<std::uint8_t, 16> identity{};  // random; the same in all blocks of a backup
  std::uint64_t generation = 0;             // larger in a newer backup
  std::int64_t time = 0;                    // when it was made: ns since 1970
  std::uint32_t index = 0;
  std::uint32_t count = 0;  // number of blocks, in the last block; 0 in the others
  Bytes content;

  static constexpr std::size_t kHeader = 52;
};

/// Returns a block of `block_size` bytes; the content must fit.
Bytes encode(const BackupPart& part, std::size_t block_size);
/// Returns std::nullopt if the block is not a part of a backup.
std::optional<BackupPart> decode_backup_part(ByteSpan block);

/// A dump of the rows that are committed when it is opened; later commits do not change the dump.
/// Used by one thread at a time.
class TablesDump {
 public:
  /// The treatment of rows that do not match their checksums.
  enum class Damaged {
    marked,   // they are dumped with a mark, and stay damaged when they are loaded
    refused,  // they end the dump with an error, as does any sign of missing rows
  };
  static Result<TablesDump> open(const std::string& database, Disk& disk, Damaged damaged);

  /// Makes SQLite check the whole file: nothing else shows that rows have vanished from a page.
  /// Errors: damaged_vault.
  Status check_file();
  /// Makes check_file() fail if another thread is in it or calls it later.
  void interrupt() { database_.interrupt(); }
  /// Returns the next `most` bytes, fewer at the end of the dump, and none after it. Errors:
  /// damaged_vault.
  Result<Bytes> next(std::size_t most);

 private:
  Status read_row();
  Status put_row(const TableSql& table);

  Database database_;
  Damaged damaged_ = Damaged::refused;
  std::optional<TableReader> rows_;  // the rows of the current table
  TableTotals totals_;
  Ino reserved_ = 0;  // read_reserved()
  std::size_t table_ = 0;
  bool checksums_ = false, ended_ = false;
  Bytes ready_;  // read and not yet taken
};

struct LoadedTables {
  std::uint64_t rows = 0;
  Ino reserved = 0;  // read_reserved() when the dump was made; 0 if the dump does not say it
};
/// Inserts the rows of a dump into the tables, which must exist and be empty. Errors:
/// damaged_vault.
Result<LoadedTables> load_tables(Database& database, ByteSpan dump);

}  // namespace s3oram
