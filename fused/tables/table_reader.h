// Reads the file tables from the first row to the last, in their stored order, and checks each row.
// A mount begins with this, and a backup is made from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fused/tables/rows.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {

/// One table, row by row.
class TableReader {
 public:
  /// `checksums`: whether the tables have a checksum column (has_checksums()).
  static Result<TableReader> open(Database& database, const TableSql& table, bool checksums);

  /// Steps to the next row. Returns false at the end.
  Result<bool> next();
  const Statement& row() const { return rows_; }
  /// Returns what is wrong with the row or with its place; null if nothing is.
  const char* problem() const { return problem_; }

 private:
  struct Key {
    std::int64_t first = 0, second = 0;  // `second` is used if the second column is a number
    Bytes name;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  Key key() const;

  const TableSql* table_ = nullptr;
  Statement rows_;
  std::optional<Key> last_;
  const char* problem_ = nullptr;
};

/// Adds up what the tables say about each other, which reveals rows that are missing without any
/// other trace.
class TableTotals {
 public:
  void add(const TableSql& table, const Statement& row);
  /// Returns what does not add up, after all tables have been read; empty if everything does.
  std::string problem() const;

 private:
  std::int64_t links_ = 0, directories_ = 0, blocks_ = 0;  // according to inodes
  std::int64_t names_ = 0, directory_names_ = 0, extents_ = 0;
};

}  // namespace s3oram
