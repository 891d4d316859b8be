// Checks tables and single rows. SQLite stores any value in any column, so a damaged row need not
// have a number where one should be.
#include <algorithm>

#include "fused/tables/check_model.h"
#include "oramcore/base/format_number.h"

namespace s3oram {

/// Creates missing tables. Refuses if the extents are gone while the volume holds blocks, because
/// nothing else says which block belongs to which file.
bool check_tables(CheckModel& model) {
  const auto number = [&](const std::string& sql) -> Result<std::optional<std::int64_t>> {
    S3O_ASSIGN(auto statement, model.database.prepare(sql));
    S3O_ASSIGN(auto row, statement.step());
    return row ? std::optional(statement.integer(0)) : std::nullopt;
  };
  std::vector<std::string> missing;
  for (const char* table : {"fs_state", "inodes", "dentries", "extents", "xattrs"}) {
    const auto there = model.database.has_table(table);
    if (!there) return model.refuse("sqlite_master", there.error());
    if (!*there) missing.emplace_back(table);
  }
  const auto& mapped = model.input.mapped;
  const bool holds = std::find(mapped.begin(), mapped.end(), true) != mapped.end();
  if (missing.size() == 5 && !holds) return false;  // never mounted, so there are no files yet
  if (holds && std::find(missing.begin(), missing.end(), "extents") != missing.end())
    return model.refuse(
        "extents",
        {Errc::damaged_vault,
         "the table is gone, so it is not known which block belongs to which file: bring "
         "back a copy of vault.db that is not older than its last use"});
  for (const std::string& table : missing)
    model.found("missing-table", "vault.db, table " + table,
                table == "fs_state"   ? "the table is gone; the vault cannot be mounted without it"
                : table == "dentries" ? "the table is gone, and with it the names of all files"
                : table == "inodes"   ? "the table is gone, and with it the attributes of all files"
                                    : "the table is gone, and with it all that it held about files",
                "it is recreated; files without a name go to /lost+found");
  if (auto made = make_tables(model.database); !made)
    return model.refuse("sqlite_master", made.error());
  const auto format = number(kSelectFormat);
  if (!format) return model.refuse("fs_state", format.error());
  if (*format && **format > kFormat)
    return model.refuse(
        "fs_state",
        unknown_format(model.database.path() + ", tables of files", **format, kFormat).value());
  if (*format == kFormat) return true;
  model.out.statements.push_back(
      fmt::format("INSERT OR REPLACE INTO fs_state (name, value) VALUES ('format', {})", kFormat));
  if (std::find(missing.begin(), missing.end(), "fs_state") == missing.end())
    model.found("missing-format", "vault.db, table fs_state",
                "the format number is missing or damaged, and without it the vault cannot be "
                "mounted",
                fmt::format("it is set to {}", kFormat));
  return true;
}

namespace {

/// Calls each() with the value of the SQL expression `described` for each row that meets the
/// condition.
template <class Each>
bool describe(CheckModel& model, const TableSql& table, const std::string& condition,
              const std::string& described, Each each) {
  auto rows = model.database.prepare(
      fmt::format("SELECT {} FROM {} WHERE {}", described, table.name, condition));
  if (!rows) return model.refuse(table.name, rows.error());
  while (true) {
    auto more = rows->step();
    if (!more) return model.refuse(table.name, more.error());
    if (!*more) return true;
    each(rows->text(0));
  }
}

bool check_table(CheckModel& model, const TableSql& table, const std::string& unsound,
                 const std::string& described, const char* consequence, const char* doubt) {
  const std::string where = fmt::format("vault.db, table {}", table.name);
  bool damaged = false, changed = false;
  const auto is_damaged = [&](const std::string& row) {
    damaged = true;
    model.found("damaged-row", where,
                fmt::format("the row of {} holds impossible values: {}", row, consequence),
                "the row is dropped");
  };
  const auto is_changed = [&](const std::string& row) {
    changed = true;
    model.found(
        "changed-row", where,
        fmt::format("the row of {} is not as it was written, and gives an error: {}", row, doubt),
        "it is corrected if a single bit has changed, and otherwise accepted as it is now");
  };
  const std::string is_intact = table.intact();
  if (!describe(model, table, unsound, described, is_damaged) ||
      !describe(model, table, fmt::format("NOT ({}) AND NOT {}", unsound, is_intact), described,
                is_changed))
    return false;
  if (damaged)
    model.out.statements.push_back(fmt::format("DELETE FROM {} WHERE {}", table.name, unsound));
  if (changed)
    model.out.statements.push_back(
        fmt::format("UPDATE {} SET checksum = NULL WHERE NOT {}", table.name, is_intact));
  return true;
}

}  // namespace

bool check_rows(CheckModel& model) {
  return check_table(
             model, kSqlOf<InodeTable>, unsound(kSqlOf<InodeTable>), "'inode ' || quote(ino)",
             "the attributes of this file are lost",
             "compare its owner, permissions, times and size with what you know about it") &&
         check_table(model, kSqlOf<DentryTable>, unsound(kSqlOf<DentryTable>),
                     "'name ' || quote(name) || ' in inode ' || quote(parent)", "this name is lost",
                     "it may be a different name, or belong to another file") &&
         check_table(model, kSqlOf<ExtentTable>, unsound_extent(model.input.block_size),
                     "'block ' || quote(idx) || ' of inode ' || quote(ino)",
                     "this part of the file is lost",
                     "compare this part of the file with what you know about it") &&
         check_table(model, kSqlOf<XattrTable>, unsound(kSqlOf<XattrTable>),
                     "'attribute ' || quote(substr(name, 1, 255)) || ' of inode ' || quote(ino)",
                     "this extended attribute is lost", "compare it with what you know about it");
}

bool read_model(CheckModel& model) {
  const auto inode = [&](Ino ino, const InodeRow& row) {
    CheckedInode& entry = model.inodes[ino];
    entry.row = entry.stored = row;
    entry.exists = true;
  };
  const auto name = [&](const DentryKey& key, const DentryRow& row) {
    model.names.push_back({key, row});
  };
  const auto extent = [&](const ExtentKey& key, const ExtentRow&) {
    ++model.inodes[key.ino].extents;
  };
  if (!model.scan<InodeTable>(unsound(kSqlOf<InodeTable>), inode) ||
      !model.scan<DentryTable>(unsound(kSqlOf<DentryTable>), name) ||
      !model.scan<ExtentTable>(unsound_extent(model.input.block_size), extent))
    return false;
  for (const CheckedName& entry : model.names) {
    ++model.inodes[entry.key.parent].children;
    // Messages show the first name in the order of the keys.
    CheckedInode& named = model.inodes[entry.row.ino];
    if (named.name) continue;
    named.name = &entry.key;
    named.name_type = entry.row.type;
  }
  return true;
}

}  // namespace s3oram
