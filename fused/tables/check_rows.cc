// Tables and rows by themselves. SQLite keeps any value in any column: what a damaged row holds
// need not be a number where one should be.
#include <algorithm>

#include "fused/tables/check_model.h"
#include "oramcore/base/format_number.h"

namespace s3oram {

/// Makes missing tables. Without the extents nobody knows which block belongs to which file.
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
  if (missing.size() == 5 && !holds) return false;  // never mounted: there are no files yet
  if (holds && std::find(missing.begin(), missing.end(), "extents") != missing.end())
    return model.refuse("extents",
                        {Errc::damaged_vault,
                         "the table is gone, and with it which block belongs to which file: bring "
                         "back a copy of vault.db that is not older than its last use"});
  for (const std::string& table : missing)
    model.found("missing-table", "vault.db, table " + table,
                table == "fs_state"   ? "the table is gone; the vault cannot be mounted without it"
                : table == "dentries" ? "the table is gone, and with it the names of all files"
                : table == "inodes"   ? "the table is gone, and with it the attributes of all files"
                                      : "the table is gone, and with it what it held of every file",
                "it is made anew; files without a name go to /lost+found");
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
                "the number of the format is missing or damaged; the vault cannot be mounted "
                "without it",
                fmt::format("it is set to {}", kFormat));
  return true;
}

namespace {

/// Calls each(what the row is of) for the rows that meet the condition.
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
                fmt::format("the row of {} holds what cannot be: {}", row, consequence),
                "the row is dropped");
  };
  const auto is_changed = [&](const std::string& row) {
    changed = true;
    model.found(
        "changed-row", where,
        fmt::format("the row of {} is not as it was written, and gives an error: {}", row, doubt),
        "it is put right if it has lost a single bit, and else is taken to be right as it is now");
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
  return check_table(model, kSqlOf<InodeTable>, unsound(kSqlOf<InodeTable>),
                     "'inode ' || quote(ino)", "the attributes of this file are lost",
                     "compare its owner, permissions, times and size with what you know of it") &&
         check_table(model, kSqlOf<DentryTable>, unsound(kSqlOf<DentryTable>),
                     "'name ' || quote(name) || ' in inode ' || quote(parent)", "this name is lost",
                     "it may be another name, or of another file") &&
         check_table(model, kSqlOf<ExtentTable>, unsound_extent(model.input.block_size),
                     "'block ' || quote(idx) || ' of inode ' || quote(ino)",
                     "this part of the file is lost",
                     "compare this part of the file with what you know of it") &&
         check_table(model, kSqlOf<XattrTable>, unsound(kSqlOf<XattrTable>),
                     "'attribute ' || quote(substr(name, 1, 255)) || ' of inode ' || quote(ino)",
                     "this extended attribute is lost", "compare it with what you know of it");
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
    // The first one counts: the order of the keys decides which name a message shows.
    CheckedInode& named = model.inodes[entry.row.ino];
    if (named.name) continue;
    named.name = &entry.key;
    named.name_type = entry.row.type;
  }
  return true;
}

}  // namespace s3oram
