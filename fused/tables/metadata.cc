// The tables of the file system as one: opening, examining and committing them.
#include "fused/tables/metadata.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "fused/tables/table_reader.h"
#include "oramcore/base/format_number.h"
#include "oramcore/db/database_header.h"
#include "oramcore/db/known_format.h"

namespace s3oram {
namespace {

constexpr auto kPart = ", tables of files";

}  // namespace

Status Metadata::open(const std::string& path, Disk& disk) {
  S3O_ASSIGN(auto reader, Database::open(path, Database::Mode::read_only, disk));
  reader_ = std::move(reader);
  S3O_ASSIGN(auto tables, number("SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name "
                                 "IN ('fs_state', 'inodes', "
                                 "'dentries', 'extents', 'xattrs')"));
  is_new_ = tables == 0;
  return is_new_ ? Status() : open_tables();
}

Status Metadata::require_known_format(const std::string& path) {
  S3O_TRY(require_known_seals(path));
  auto database = Database::open(path, Database::Mode::read_only);
  return database ? require_format(*database, kSelectFormat, kFormat, kPart) : Status();
}

Status Metadata::open_tables() {
  auto format = number(kSelectFormat);
  if (!format) return fail(Errc::damaged_vault, "{}", format.error().message);
  if (*format != kFormat) return unknown_format(reader_.path() + kPart, *format, kFormat);
  const auto checksums = has_checksums(reader_);
  if (!checksums) return fail(Errc::damaged_vault, "{}", checksums.error().message);
  checksums_ = *checksums;
  const auto open = [this](auto& table) -> Status {
    auto opened = table.open(reader_, checksums_, damage);
    return opened ? opened : fail(Errc::damaged_vault, "{}", opened.error().message);
  };
  S3O_TRY(open(inodes));
  S3O_TRY(open(dentries));
  S3O_TRY(open(extents));
  return open(xattrs);
}

Status Metadata::examine() {
  TableTotals totals;
  for (const TableSql& table : kTables) {
    S3O_ASSIGN(auto rows, TableReader::open(reader_, table, checksums_));
    while (true) {
      const auto more = rows.next();
      if (!more && more.error().code != Errc::damaged_vault) return fail(more.error());
      if (!more)
        damage.note(fmt::format("vault.db, table {}: {}", table.name, more.error().message));
      if (!more || !*more) break;
      totals.add(table, rows.row());
      if (const char* problem = rows.problem())
        damage.note(fmt::format("vault.db, table {}: a row of inode {} {}", table.name,
                                rows.row().integer(0), problem));
    }
  }
  S3O_TRY(examine_packs());
  if (const std::string problem = totals.problem(); !problem.empty() && !damage.any())
    damage.note("vault.db: " + problem);
  return {};
}

/// Reads the index of packs, which the tables do not need. If a page of it cannot be read, each
/// commit that has to change the page would fail.
Status Metadata::examine_packs() {
  const auto pieces =
      number(fmt::format("SELECT COUNT(*) FROM extents WHERE block >= {}", kPackedPlace));
  if (pieces) return {};
  return fail(pieces.error().code,
              "{}; it is part of an index, which s3oramfs fsck --repair makes again",
              pieces.error().message);
}

std::function<Status(Database&)> Metadata::begin_commit(std::optional<Ino> reserve) {
  const auto apply = [reserve, inode_changes = inodes.begin_commit(),
                      dentry_changes = dentries.begin_commit(),
                      extent_changes = extents.begin_commit(),
                      xattr_changes = xattrs.begin_commit()](Database& database) -> Status {
    if (reserve) S3O_TRY(note_reserved(database, *reserve));
    S3O_TRY(Table<InodeTable>::apply(database, *inode_changes));
    S3O_TRY(Table<DentryTable>::apply(database, *dentry_changes));
    S3O_TRY(Table<ExtentTable>::apply(database, *extent_changes));
    return Table<XattrTable>::apply(database, *xattr_changes);
  };
  return [is_new = is_new_, checksums = checksums_, apply](Database& database) -> Status {
    if (!checksums) S3O_TRY(make_tables(database));
    if (is_new) {
      S3O_TRY(database.execute(
          fmt::format("INSERT INTO fs_state (name, value) VALUES ('format', {})", kFormat)));
    }
    Status applied = apply(database);
    if (applied || applied.error().code != Errc::damaged_vault) return applied;
    if (!database.in_transaction()) return applied;  // and so are the positions: see begin()
    // A damaged row and its index contradict each other. The indices are rebuilt from the rows, so
    // that all other changes need not wait for fsck.
    spdlog::error("{}: its indices are rebuilt; run s3oramfs fsck", applied.error().message);
    S3O_TRY(database.execute("REINDEX orphans; REINDEX packed;"));
    return apply(database);
  };
}

void Metadata::end_commit(bool succeeded) {
  if (succeeded) is_new_ = false;
  checksums_ |= succeeded;
  inodes.end_commit(succeeded);
  dentries.end_commit(succeeded);
  extents.end_commit(succeeded);
  xattrs.end_commit(succeeded);
}

std::size_t Metadata::uncommitted() const {
  return inodes.uncommitted() + dentries.uncommitted() + extents.uncommitted() +
         xattrs.uncommitted();
}

std::size_t Metadata::uncommitted_bytes() const {
  return inodes.uncommitted_bytes() + dentries.uncommitted_bytes() + extents.uncommitted_bytes() +
         xattrs.uncommitted_bytes();
}

template <class Row, class Read>
Result<std::vector<Row>> Metadata::all(std::string_view sql, Read read) {
  S3O_ASSIGN(auto statement, reader_.prepare(sql));
  std::vector<Row> found;
  while (true) {
    S3O_ASSIGN(auto more, statement.step());
    if (!more) return found;
    found.push_back(read(statement));
  }
}

Result<std::vector<Ino>> Metadata::orphans() {
  return numbers(
      "SELECT ino FROM inodes WHERE nlink = 0 AND ino NOT IN (SELECT ino FROM dentries)"
      " AND NOT EXISTS (SELECT 1 FROM dentries WHERE parent = inodes.ino)");
}

Result<std::vector<OwnedPlace>> Metadata::owned_places() {
  return all<OwnedPlace>(
      fmt::format(
          "SELECT CASE WHEN typeof(block) = 'integer' AND block >= 0 AND {} THEN block ELSE -1 END"
          " AS number, CASE WHEN typeof(valid) = 'integer' AND valid BETWEEN 0 AND 0xffffffff"
          " THEN valid ELSE 0 END FROM extents ORDER BY number < 0, number",
          kSqlOf<ExtentTable>.intact(checksums_)),
      [](const Statement& row) {
        return OwnedPlace{static_cast<BlockId>(row.integer(0)),
                          static_cast<std::uint32_t>(row.integer(1))};
      });
}

Result<std::vector<ExtentKey>> Metadata::pieces(BlockId pack) {
  return all<ExtentKey>(
      fmt::format("SELECT ino, idx FROM extents WHERE block BETWEEN {} AND {} AND block >= {}",
                  packed_place(pack, 0), packed_place(pack + 1, 0) - 1, kPackedPlace),
      ExtentTable::key);
}

/// Rows that have lost their inode also count, because a new inode must not inherit them.
Result<Ino> Metadata::largest_ino() {
  Ino largest = kRootIno;
  bool hidden = false;
  for (const char* column : {"ino FROM inodes", "ino FROM extents", "ino FROM xattrs",
                             "parent FROM dentries", "ino FROM dentries"}) {
    auto found = numbers(fmt::format(
        "SELECT {0} WHERE {1} BETWEEN 1 AND {2} ORDER BY {1} DESC LIMIT 1", column,
        std::string_view(column).substr(0, std::string_view(column).find(' ')), kLargestNewIno));
    if (!found && found.error().code != Errc::damaged_vault) return fail(found.error());
    if (found && !found->empty()) largest = std::max(largest, found->front());
    if (found) continue;
    damage.note(fmt::format("vault.db: {}", found.error().message));
    hidden = true;
  }
  constexpr Ino kMostHidden = Ino{1} << 32;  // above the largest that can be read
  return hidden ? largest + kMostHidden : largest;
}

Result<std::int64_t> Metadata::number(std::string_view sql) {
  S3O_ASSIGN(auto row, numbers(sql));
  if (row.empty())
    return fail(Errc::damaged_vault, "database {}: no row for: {}", reader_.path(), sql);
  return static_cast<std::int64_t>(row.front());
}

Result<std::vector<std::uint64_t>> Metadata::numbers(std::string_view sql) {
  return all<std::uint64_t>(
      sql, [](const Statement& row) { return static_cast<std::uint64_t>(row.integer(0)); });
}

}  // namespace s3oram
