// Copies a damaged file table by table: page by page if its log is empty, otherwise with SQL.
#include "oramcore/db/salvage.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "oramcore/db/database_file.h"
#include "oramcore/db/sqlite.h"
#include "oramcore/db/table_walk.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

using Key = std::int64_t;

// Ranges of keys that could not be read are halved repeatedly, at most this often per table.
constexpr unsigned kMostFailures = 50'000;

struct Range {
  Key first = 0, last = 0;
  bool single() const { return first == last; }
  Key middle() const { return std::midpoint(first, last); }  // the last key of the lower half
  friend bool operator<(const Range& a, const Range& b) {
    return std::pair(a.last - a.first, a.first) < std::pair(b.last - b.first, b.first);
  }
};

/// Returns the ranges 0, 1, 2-3, 4-7 and so on, which are narrow where most keys are. No table has
/// negative keys.
std::set<Range> all_keys() {
  std::set<Range> ranges{{0, 0}};
  for (unsigned bit = 0; bit < 63; ++bit) {
    const Key first = Key{1} << bit;
    ranges.insert({first, first + (first - 1)});
  }
  return ranges;
}

std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + '"';
}

/// Returns an upper bound for the rows in a file. (If its pages form a cycle, there seem to be
/// more.)
std::uint64_t most_rows(const std::string& file) {
  constexpr std::uint64_t kLeast = 4;  // bytes
  std::uint64_t size = 0;
  for (const fs::path& part : {fs::path(file), log_of(file)}) {
    std::error_code error;
    if (const auto bytes = fs::file_size(part, error); !error) size += bytes;
  }
  return size / kLeast;
}

/// Copies one table of `damaged` (attached) page by page into the table with the same name in
/// `main`.
class PageCopy {
 public:
  PageCopy(Database& database, WalkedTable table) : database_(database), table_(std::move(table)) {
    salvaged_.name = table_.name;
  }

  Result<SalvagedTable> run() {
    S3O_ASSIGN(auto pages, DatabasePages::open(database_, "damaged"));
    S3O_TRY(database_.execute("BEGIN"));  // only `main` is written
    Status copied = copy(pages);
    if (copied) copied = database_.execute("COMMIT");
    if (!copied) database_.rollback();
    if (!copied) return fail(copied.error());
    return std::move(salvaged_);
  }

 private:
  Status copy(const DatabasePages& pages) {
    S3O_ASSIGN(auto put, database_.prepare(fmt::format("INSERT OR IGNORE INTO main.{} VALUES ({})",
                                                       quoted(table_.name), marks())));
    // Damaged rows are inserted last, so that of two rows with the same key the sound one is kept.
    std::vector<RowValues> damaged;
    const auto each = [&](RowValues row, bool proven) -> Status {
      if (!proven) {
        damaged.push_back(std::move(row));
        return {};
      }
      S3O_TRY(insert(put, row));
      last_ = std::move(row);
      return {};
    };
    bool lost = false;
    const auto gap = [&](bool readable) {
      lost |= !readable;
      if (salvaged_.gaps.empty() || salvaged_.gaps.back() != last_) salvaged_.gaps.push_back(last_);
    };
    TableWalk walk(pages, table_, each, gap);
    S3O_TRY(walk.run());
    for (const RowValues& row : damaged) S3O_TRY(insert(put, row));
    salvaged_.mended = walk.mended();
    S3O_ASSIGN(auto count,
               database_.prepare(fmt::format("SELECT COUNT(*) FROM main.{}", quoted(table_.name))));
    S3O_TRY(count.step());
    salvaged_.rows = static_cast<std::uint64_t>(count.integer(0));
    salvaged_.whole = !lost && salvaged_.rows == inserted_;
    return {};
  }

  Status insert(Statement& put, const RowValues& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const int at = static_cast<int>(i);
      const RowValue& value = row[i];
      switch (value.type) {
        case RowValue::Type::integer:
          put.bind(at, value.integer);
          break;
        case RowValue::Type::real:
          put.bind_real(at, std::bit_cast<double>(value.integer));
          break;
        case RowValue::Type::text:
          put.bind(at, std::string_view(reinterpret_cast<const char*>(value.bytes.data()),
                                        value.bytes.size()));
          break;
        case RowValue::Type::blob:
          put.bind(at, ByteSpan(value.bytes));
          break;
        case RowValue::Type::null:
          put.bind_null(at);
      }
    }
    ++inserted_;
    return put.run();
  }

  std::string marks() const {
    std::string all;
    for (std::size_t i = 0; i < table_.columns.size(); ++i) all += i == 0 ? "?" : ", ?";
    return all;
  }

  Database& database_;
  const WalkedTable table_;
  SalvagedTable salvaged_;
  std::uint64_t inserted_ = 0;
  RowValues last_;
};

/// Copies one table of `damaged` (attached) with SQL into the table with the same name in `main`,
/// at most `most` rows per statement.
class TableCopy {
 public:
  TableCopy(Database& database, const std::string& name, std::uint64_t most)
      : database_(database), name_(name), most_(most) {}

  Result<SalvagedTable> run() {
    S3O_TRY(find_key());
    S3O_TRY(copy());
    S3O_ASSIGN(const auto there, count("main"), were = count("damaged"));
    SalvagedTable table;
    table.name = name_;
    table.rows = there;
    table.whole = whole_ && were && *were == there;
    if (!table.whole) table.gaps.emplace_back();
    return table;
  }

 private:
  /// Finds the columns of the primary key, or the rowid if there is none.
  Status find_key() {
    S3O_ASSIGN(auto columns, database_.prepare("SELECT name FROM pragma_table_info(?) WHERE pk > 0 "
                                               "ORDER BY pk"));
    columns.bind(0, std::string_view(name_));
    while (true) {
      S3O_ASSIGN(auto more, columns.step());
      if (!more) break;
      key_.push_back(quoted(columns.text(0)));
    }
    if (key_.empty()) key_.emplace_back("rowid");
    return {};
  }

  /// Always has a condition, because without one SQLite would copy rows unchecked, even if they are
  /// out of order or lack a required value.
  std::string insert(const std::string& condition) const {
    return fmt::format(
        "INSERT OR IGNORE INTO main.{0} SELECT * FROM damaged.{0} NOT INDEXED WHERE {1} LIMIT {2}",
        quoted(name_), condition, most_);
  }

  Result<std::uint64_t> count(const char* schema) {
    S3O_ASSIGN(auto count, database_.prepare(fmt::format(
                               "SELECT COUNT(*) FROM (SELECT 1 FROM {}.{} NOT INDEXED LIMIT {})",
                               schema, quoted(name_), most_)));
    S3O_TRY(count.step());
    return static_cast<std::uint64_t>(count.integer(0));
  }

  /// Tries the narrowest and the widest range alternately: the narrowest finds all rows around a
  /// damaged page, the widest finds rows after a wide gap in the keys.
  Status copy() {
    auto all = database_.prepare(insert("TRUE"));
    if (all) {
      auto copied = all->run();
      if (copied) return {};
      if (copied.error().code == Errc::disk_full) return copied;
    }
    whole_ = false;
    auto some = database_.prepare(insert(fmt::format("{} BETWEEN ? AND ?", key_[0])));
    if (!some) return {};  // nothing can be read
    unsigned failures = 0;
    for (std::set<Range> todo = all_keys(); !todo.empty() && failures < kMostFailures;) {
      const auto next = failures % 2 == 0 ? todo.begin() : std::prev(todo.end());
      const Range range = *next;
      todo.erase(next);
      auto copied = some->bind(0, range.first).bind(1, range.last).run();
      if (copied) continue;
      if (copied.error().code == Errc::disk_full) return copied;
      ++failures;
      if (!range.single()) {
        todo.insert({range.first, range.middle()});
        todo.insert({range.middle() + 1, range.last});
      } else if (key_.size() > 1) {
        S3O_TRY(step_through(range.first, "ASC"));
        S3O_TRY(step_through(range.first, "DESC"));
      }
    }
    return {};
  }

  /// Copies rows whose key begins with `first` one by one, until one cannot be read.
  Status step_through(Key first, const char* order) {
    auto keys = database_.prepare(fmt::format(
        "SELECT {0} FROM damaged.{1} NOT INDEXED WHERE {2} = ? ORDER BY {0} {3} LIMIT {4}", key_[1],
        quoted(name_), key_[0], order, most_));
    if (!keys) return {};
    auto one = database_.prepare(insert(fmt::format("{} = ? AND {} = ?", key_[0], key_[1])));
    if (!one) return {};
    keys->bind(0, first);
    while (true) {
      const auto more = keys->step();
      if (!more || !*more) return {};
      one->bind(0, first);
      if (keys->is_integer(0))
        one->bind(1, keys->integer(0));
      else
        one->bind(1, ByteSpan(keys->blob(0)));
      auto copied = one->run();
      if (!copied && copied.error().code == Errc::disk_full) return copied;
    }
  }

  Database& database_;
  const std::string name_;
  const std::uint64_t most_;
  std::vector<std::string> key_;
  bool whole_ = true;
};

struct Schema {
  struct Table {
    std::string name, sql;
    std::uint32_t root = 0;
  };
  std::vector<Table> tables;
  std::vector<std::string> indexes;  // SQL
};

Result<Schema> read_schema(Database& database) {
  S3O_ASSIGN(auto rows, database.prepare("SELECT type, name, sql, rootpage FROM "
                                         "damaged.sqlite_master WHERE sql IS NOT NULL AND name "
                                         "NOT LIKE "
                                         "'sqlite~_%' ESCAPE '~'"));
  Schema schema;
  while (true) {
    S3O_ASSIGN(auto more, rows.step());
    if (!more) return schema;
    if (rows.text(0) == "table")
      schema.tables.push_back(
          {rows.text(1), rows.text(2), static_cast<std::uint32_t>(rows.integer(3))});
    if (rows.text(0) == "index") schema.indexes.push_back(rows.text(2));
  }
}

/// Describes how rows lie on the pages of a table of `damaged`, from the same table made in `main`.
Result<WalkedTable> describe(Database& database, const Schema::Table& table) {
  WalkedTable walked;
  walked.name = table.name;
  walked.root = table.root;
  S3O_ASSIGN(auto kind,
             database.prepare("SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'"));
  kind.bind(0, std::string_view(table.name));
  S3O_ASSIGN(auto found, kind.step());
  walked.tree = found && kind.integer(0) != 0 ? TreeKind::keyed : TreeKind::numbered;
  S3O_ASSIGN(
      auto columns,
      database.prepare("SELECT name, pk, upper(type) = 'INTEGER' FROM pragma_table_info(?)"));
  columns.bind(0, std::string_view(table.name));
  std::vector<std::pair<std::int64_t, std::size_t>> key;  // place in the key, column
  std::vector<std::size_t> others;
  bool is_integer = false;
  while (true) {
    S3O_ASSIGN(auto more, columns.step());
    if (!more) break;
    const std::size_t column = walked.columns.size();
    walked.columns.push_back(columns.text(0));
    if (columns.integer(1) == 0) {
      others.push_back(column);
      continue;
    }
    key.emplace_back(columns.integer(1), column);
    is_integer = columns.integer(2) != 0;
  }
  if (walked.tree == TreeKind::numbered) {
    if (key.size() == 1 && is_integer) walked.number = key.front().second;
    for (std::size_t i = 0; i < walked.columns.size(); ++i) walked.order.push_back(i);
    return walked;
  }
  std::sort(key.begin(), key.end());
  for (const auto& [place, column] : key) walked.order.push_back(column);
  walked.order.insert(walked.order.end(), others.begin(), others.end());
  return walked;
}

/// Copies page by page, unless a log that could not be folded holds parts of the table.
Result<SalvagedTable> copy_table(Database& database, const std::string& from,
                                 const Schema::Table& table) {
  std::error_code error;
  const bool has_log = fs::file_size(log_of(from), error) > 0 && !error;
  if (has_log) return TableCopy(database, table.name, most_rows(from)).run();
  S3O_ASSIGN(auto walked, describe(database, table));
  return PageCopy(database, std::move(walked)).run();
}

}  // namespace

Result<std::vector<SalvagedTable>> salvage(const std::string& from, const std::string& to,
                                           Disk& disk) {
  S3O_ASSIGN(auto database, Database::open(to, Database::Mode::create, disk));
  {
    S3O_ASSIGN(auto attach, database.prepare("ATTACH ? AS damaged"));
    S3O_TRY(attach.bind(0, std::string_view(from)).run());
  }
  // Each statement is a transaction of its own, because one that reads a damaged page is rolled
  // back.
  S3O_TRY(database.execute("PRAGMA main.synchronous = OFF"));
  auto schema = read_schema(database);
  if (!schema) return fail(Errc::damaged_vault, "{}", schema.error().message);
  std::vector<SalvagedTable> tables;
  for (const Schema::Table& each : schema->tables) {
    S3O_TRY(database.execute(each.sql));
    S3O_ASSIGN(auto table, copy_table(database, from, each));
    tables.push_back(std::move(table));
  }
  for (const std::string& sql : schema->indexes) S3O_TRY(database.execute(sql));
  return tables;
}

}  // namespace s3oram
