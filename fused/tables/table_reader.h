// Reads tables of files from their first row to their last, in the order in which the rows lie, and
// judges them: what a mount looks at first, and what a backup is made of.
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
  /// `checksums`: whether the tables have any yet (has_checksums()).
  static Result<TableReader> open(Database& database, const TableSql& table, bool checksums);

  /// Steps to the next row; false at the end.
  Result<bool> next();
  const Statement& row() const { return rows_; }
  /// What is wrong with the row, or with its place; null if nothing is.
  const char* problem() const { return problem_; }

 private:
  struct Key {
    std::int64_t first = 0, second = 0;  // `second`: of a table that has numbers there
    Bytes name;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  Key key() const;

  const TableSql* table_ = nullptr;
  Statement rows_;
  std::optional<Key> last_;
  const char* problem_ = nullptr;
};

/// Adds up what tables say of each other: a row that is missing without a trace shows there.
class TableTotals {
 public:
  void add(const TableSql& table, const Statement& row);
  /// What does not add up, once all tables were read; empty if all does.
  std::string problem() const;

 private:
  std::int64_t links_ = 0, directories_ = 0, blocks_ = 0;  // that inodes count, or are
  std::int64_t names_ = 0, directory_names_ = 0, extents_ = 0;
};

}  // namespace s3oram
