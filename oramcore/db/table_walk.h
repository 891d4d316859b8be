// Reads a table of a damaged SQLite file page by page, without SQLite, which trusts whatever a page
// says. Corrects a row that stores a checksum (row_checksum.h) and in which a single bit has
// changed: of all rows that differ in one bit, only the one that was written matches it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "oramcore/db/page.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {

/// The description of a table that a walk needs.
struct WalkedTable {
  std::string name;
  std::uint32_t root = 0;  // page
  TreeKind tree = TreeKind::numbered;
  std::vector<std::string> columns;
  std::vector<std::size_t> order;     // the columns in the order of a record
  std::optional<std::size_t> number;  // the column that is a row's number

  bool has_checksums() const { return !columns.empty() && columns.back() == "checksum"; }
  /// Returns whether the row matches its checksum.
  bool proves(const RowValues& row) const;
};

/// The pages of a database, read through its VFS.
class DatabasePages {
 public:
  /// `schema` names an attached database, whose log is empty. Errors: damaged_vault.
  static Result<DatabasePages> open(Database& database, const std::string& schema);
  /// Reads a page. Errors: damaged_vault.
  Result<Bytes> read(std::uint32_t page) const;
  std::size_t usable() const { return usable_; }

 private:
  Database* database_ = nullptr;
  std::string schema_;
  std::size_t size_ = 0, usable_ = 0;
};

class TableWalk {
 public:
  /// Called for each row that can be read, in the order of the pages. `proven` is false if the row
  /// does not match its checksum, even after any single bit is flipped.
  using Each = std::function<Status(RowValues row, bool proven)>;
  /// Called where rows may be missing, after the last proven row. `readable` is true if the cause
  /// is a row that is not proven, which comes next.
  using Gap = std::function<void(bool readable)>;

  TableWalk(const DatabasePages& pages, const WalkedTable& table, Each each, Gap gap)
      : pages_(pages), table_(table), each_(std::move(each)), gap_(std::move(gap)) {}

  /// Walks the table. Errors: those of `each`.
  Status run() { return walk(table_.root, 0); }
  /// Returns how many rows were corrected.
  std::uint64_t mended() const { return mended_; }

 private:
  Status walk(std::uint32_t number, unsigned depth);
  Status cell(const TreePage& page, std::size_t index);
  std::optional<RowValues> row_at(const TreePage& page, std::size_t index) const;
  bool is_proven(const std::optional<RowValues>& row) const;
  void mend_cells(TreePage& page);
  std::optional<Bytes> record_of(const TreePage& page, const PageCell& cell) const;

  const DatabasePages& pages_;
  const WalkedTable& table_;
  const Each each_;
  const Gap gap_;
  std::vector<bool> seen_;  // page numbers
  std::uint64_t mended_ = 0;
};

}  // namespace s3oram
