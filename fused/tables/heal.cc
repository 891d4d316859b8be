// Recreates a damaged vault.db from its rows, with a mark wherever rows may be missing.
#include "fused/tables/heal.h"

#include <algorithm>
#include <iterator>

#include "fused/tables/rows.h"
#include "oramcore/db/database_file.h"
#include "oramcore/db/database_header.h"
#include "oramcore/db/integrity.h"
#include "oramcore/db/salvage_database.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

std::int64_t integer_of(const RowValues& row, std::size_t column) {
  return column < row.size() ? row[column].integer : 0;
}

/// Returns the first name that can follow the row's name, because no name contains a zero byte.
Bytes name_behind(const RowValues& row) {
  Bytes name = row.size() > 1 ? row[1].bytes : Bytes();
  name.push_back(0);
  return name;
}

/// Binds a mark for rows that are lost after `before`: a row with the next key and otherwise
/// impossible values.
void bind_mark(Statement& put, const TableSql& table, const RowValues& before) {
  const std::string_view name = table.name;
  constexpr std::string_view kNoBlob = "";
  for (int column = 0; column < table.width(); ++column) put.bind(column, std::int64_t{0});
  if (name == InodeTable::kName) {
    constexpr int kLinks = 4;
    put.bind(0, integer_of(before, 0) + 1).bind(kLinks, std::int64_t{1});
    put.bind(table.width() - 1, kNoBlob);
    return;
  }
  put.bind(0, integer_of(before, 0));
  if (name == ExtentTable::kName)
    put.bind(1, before.empty() ? std::int64_t{0} : integer_of(before, 1) + 1)
        .bind(2, std::int64_t{-1});
  else
    put.bind(1, ByteSpan(name_behind(before)));
  if (name == XattrTable::kName) put.bind(2, kNoBlob);
}

/// Marks the gaps, and returns the number of marks.
Result<std::uint64_t> mark_gaps(Database& database, const std::vector<SalvagedTable>& tables) {
  std::uint64_t marks = 0;
  for (const TableSql& table : kTables) {
    const auto salvaged = std::ranges::find(tables, table.name, &SalvagedTable::name);
    if (salvaged == tables.end() || salvaged->gaps.empty()) continue;
    S3O_ASSIGN(auto put, database.prepare(table.put("INSERT OR IGNORE", true)));
    for (const RowValues& before : salvaged->gaps) {
      bind_mark(put, table, before);
      S3O_TRY(put.run());
      ++marks;
    }
  }
  return marks;
}

Result<HealedDatabase> make_fresh(const fs::path& path, const fs::path& fresh, Disk& disk) {
  S3O_ASSIGN(const auto salvaged, salvage_database(path, fresh, disk));
  if (!salvaged.pages.lost.empty())
    return fail(Errc::damaged_vault, "{}: {}", path.string(), salvaged.pages.lost.front());
  const std::vector<SalvagedTable>& tables = salvaged.tables;
  HealedDatabase healed;
  for (const SalvagedTable& table : tables) healed.mended += table.mended;
  S3O_ASSIGN(auto database, Database::open(fresh.string(), Database::Mode::read_write, disk));
  const bool has_files = std::ranges::any_of(
      tables, [](const SalvagedTable& table) { return table.name == "fs_state"; });
  S3O_TRY(database.begin());
  if (has_files) S3O_TRY(make_tables(database));  // an older format lacks some columns
  S3O_ASSIGN(auto marks, has_files ? mark_gaps(database, tables) : Result<std::uint64_t>(0));
  healed.gaps = marks;
  S3O_TRY(database.commit("heal"));
  return healed;
}

/// Returns a text that says what must be healed; empty if nothing is wrong.
Result<std::string> need_of(const fs::path& path, HealFor what, bool sealed, Disk& disk) {
  // The pages of a sealed database can be read one by one, even if SQLite cannot read it.
  const auto unreadable = [&](const Error& error) -> Result<std::string> {
    if (sealed && error.code == Errc::damaged_vault) return error.message;
    return fail(error);
  };
  auto database = Database::open(path.string(), Database::Mode::read_write, disk);
  if (!database) return unreadable(database.error());
  auto damage = find_damage(*database);
  if (!damage) return unreadable(damage.error());
  if (damage->empty() && what == HealFor::rows && has_changed_rows(*database))
    *damage = "rows are not as they were written";
  // If folding fails, salvaging reads the log beside the file.
  if (!damage->empty()) static_cast<void>(database->fold_log());
  return damage;
}

}  // namespace

bool has_changed_rows(Database& database) {
  const auto checksums = has_checksums(database);
  if (!checksums || !*checksums) return false;
  for (const TableSql& table : kTables) {
    auto changed = database.prepare(
        fmt::format("SELECT 1 FROM {} WHERE NOT {} LIMIT 1", table.name, table.intact()));
    if (!changed) return false;
    const auto found = changed->step();
    if (found && *found) return true;
  }
  return false;
}

Result<std::optional<HealedDatabase>> heal_database(const fs::path& path, HealFor what,
                                                    Disk& disk) {
  const bool sealed = read_header(path).kind == DatabaseHeader::Kind::sealed;
  if (sealed && what == HealFor::order) return std::nullopt;
  S3O_ASSIGN(auto damage, need_of(path, what, sealed, disk));
  if (damage.empty()) return std::nullopt;
  S3O_ASSIGN(auto copy, keep_copy(path, ".damaged"));
  const fs::path fresh = path.string() + ".new";
  S3O_TRY(remove_database(fresh));
  auto healed = make_fresh(path, fresh, disk);
  if (!healed) {
    S3O_TRY(remove_database(fresh));
    S3O_TRY(remove_database(copy));  // the file is unchanged, so the copy is useless
    return fail(healed.error());
  }
  S3O_TRY(replace_database(fresh, path, disk));
  healed->damage = std::move(damage);
  healed->copy = std::move(copy);
  return std::optional(std::move(*healed));
}

}  // namespace s3oram
