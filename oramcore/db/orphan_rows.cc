// Walks the trees of a database, page by page, and reads the pages that no tree contains.
#include "oramcore/db/orphan_rows.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <variant>
#include <vector>

#include "oramcore/db/page_seal.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {
namespace {

constexpr std::size_t kUsable = kPageBytes - kSealBytes;
constexpr std::uint8_t kInnerIndex = 2, kInnerTable = 5, kLeafIndex = 10, kLeafTable = 13;

using Value = std::variant<std::monostate, std::int64_t, double, std::string, Bytes>;
using Row = std::vector<Value>;

std::uint64_t number_of(ByteSpan bytes) {
  std::uint64_t value = 0;
  for (const std::uint8_t byte : bytes) value = value << 8 | byte;
  return value;
}

/// Takes numbers and bytes from the front. Once too few are left, every later call fails too.
class Reader {
 public:
  explicit Reader(ByteSpan bytes) : bytes_(bytes) {}
  bool failed() const { return failed_; }
  ByteSpan rest() const { return bytes_; }
  ByteSpan take(std::size_t size) {
    failed_ |= size > bytes_.size();
    if (failed_) return {};
    const ByteSpan taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  std::uint64_t number(std::size_t size) { return number_of(take(size)); }
  /// Reads SQLite's varint: 7 bits a byte, and 8 in the ninth.
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int i = 0; i < 9 && !failed_; ++i) {
      const std::uint64_t byte = number(1);
      if (i == 8) return value << 8 | byte;
      value = value << 7 | (byte & 0x7f);
      if ((byte & 0x80) == 0) break;
    }
    return value;
  }

 private:
  ByteSpan bytes_;
  bool failed_ = false;
};

std::optional<Value> read_value(std::uint64_t type, Reader& body) {
  constexpr std::size_t kSizes[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};
  if (type == 10 || type == 11) return std::nullopt;
  if (type >= 12) {
    const ByteSpan bytes = body.take((type - 12) / 2);
    if (type % 2 == 0) return Value(Bytes(bytes.begin(), bytes.end()));
    return Value(std::string(bytes.begin(), bytes.end()));
  }
  if (type == 0) return Value();
  if (type >= 8) return Value(static_cast<std::int64_t>(type - 8));
  const std::size_t size = kSizes[type];
  std::uint64_t number = body.number(size);
  if (type == 7) return Value(std::bit_cast<double>(number));
  if (size < 8) {  // extends the sign
    const unsigned unused = 64 - 8 * static_cast<unsigned>(size);
    return Value(static_cast<std::int64_t>(number << unused) >> unused);
  }
  return Value(static_cast<std::int64_t>(number));
}

std::optional<Row> read_record(ByteSpan record) {
  Reader header(record);
  const std::uint64_t size = header.varint();
  if (header.failed() || size > record.size()) return std::nullopt;
  Reader types(record.first(size));
  static_cast<void>(types.varint());
  Reader body(record.subspan(size));
  Row row;
  while (!types.rest().empty()) {
    auto value = read_value(types.varint(), body);
    if (!value || types.failed() || body.failed()) return std::nullopt;
    row.push_back(std::move(*value));
  }
  return row;
}

struct TableShape {
  std::string name;
  std::uint32_t root = 0;
  bool has_rowid = true;
  std::vector<std::string> columns;  // in the order of a record
  std::optional<std::size_t> rowid;  // the column that is an alias of the rowid
};

class Trees {
 public:
  Trees(File& file, const PageKey& key, std::uint32_t pages)
      : file_(file), key_(key), pages_(pages), known_(pages + 1) {}

  /// Marks the free pages. Returns false if the list of them is lost.
  bool start() {
    Page first;
    if (pages_ == 0 || !file_.read(0, first)) return false;
    id_ = database_of(first);
    if (!read(1, first)) return false;
    known_[1] = true;
    auto trunk = static_cast<std::uint32_t>(number_of(ByteSpan(first).subspan(32, 4)));
    for (std::uint32_t count = 0; trunk != 0; ++count) {
      Page page;
      if (count > pages_ || trunk > pages_ || !read(trunk, page)) return false;
      known_[trunk] = true;
      const std::uint64_t leaves = number_of(ByteSpan(page).subspan(4, 4));
      for (std::uint64_t i = 0; i < std::min<std::uint64_t>(leaves, kUsable / 4 - 2); ++i) {
        const std::uint64_t leaf = number_of(ByteSpan(page).subspan(8 + 4 * i, 4));
        if (leaf <= pages_) known_[leaf] = true;
      }
      trunk = static_cast<std::uint32_t>(number_of(ByteSpan(page).first(4)));
    }
    return true;
  }

  /// Marks the pages of a tree. Returns false if one of them is lost.
  bool walk(std::uint32_t root) {
    std::vector<std::uint32_t> todo{root};
    bool whole = true;
    while (!todo.empty()) {
      const std::uint32_t number = todo.back();
      todo.pop_back();
      if (number == 0 || number > pages_ || (known_[number] && number != root)) continue;
      known_[number] = true;
      Page page;
      if (!read(number, page)) {
        whole = false;
        continue;
      }
      for (const std::uint32_t child : children(number, page)) todo.push_back(child);
    }
    return whole;
  }

  /// Calls visit(kind of page, rowid, row) for each row on pages that no tree contains.
  template <class Visit>
  void visit_others(Visit visit) {
    for (std::uint32_t number = 2; number <= pages_; ++number) {
      Page page;
      if (known_[number] || !read(number, page)) continue;
      const std::uint8_t kind = page[0];
      if (kind != kLeafTable && kind != kLeafIndex && kind != kInnerIndex) continue;
      for (const std::size_t cell : cells(number, page)) {
        std::int64_t rowid = 0;
        if (auto row = read_cell(page, cell, rowid)) visit(kind, rowid, *row);
      }
    }
  }

 private:
  bool read(std::uint32_t number, Page& page) {
    return file_.read(std::uint64_t{number - 1} * kPageBytes, page).has_value() &&
           open_page(key_, id_, number, page);
  }

  static bool is_inner(std::uint8_t kind) { return kind == kInnerIndex || kind == kInnerTable; }

  /// Returns where the page's cells begin; empty if it is not a page of a tree.
  static std::vector<std::size_t> cells(std::uint32_t number, const Page& page) {
    const std::size_t begin = number == 1 ? kClearHeaderBytes : 0;
    const std::uint8_t kind = page[begin];
    if (!is_inner(kind) && kind != kLeafIndex && kind != kLeafTable) return {};
    const std::size_t pointers = begin + (is_inner(kind) ? 12 : 8);
    const std::uint64_t count = number_of(ByteSpan(page).subspan(begin + 3, 2));
    std::vector<std::size_t> found;
    for (std::uint64_t i = 0; i < count && pointers + 2 * i + 2 <= kUsable; ++i) {
      const std::uint64_t at = number_of(ByteSpan(page).subspan(pointers + 2 * i, 2));
      if (at < kUsable) found.push_back(at);
    }
    return found;
  }

  static std::vector<std::uint32_t> children(std::uint32_t number, const Page& page) {
    const std::size_t begin = number == 1 ? kClearHeaderBytes : 0;
    if (!is_inner(page[begin])) return {};
    std::vector<std::uint32_t> found;
    for (const std::size_t cell : cells(number, page))
      if (cell + 4 <= kUsable)
        found.push_back(static_cast<std::uint32_t>(number_of(ByteSpan(page).subspan(cell, 4))));
    found.push_back(static_cast<std::uint32_t>(number_of(ByteSpan(page).subspan(begin + 8, 4))));
    return found;
  }

  std::optional<Row> read_cell(const Page& page, std::size_t at, std::int64_t& rowid) {
    Reader cell(ByteSpan(page).first(kUsable).subspan(at));
    const bool of_table = page[0] == kLeafTable;
    if (page[0] == kInnerIndex) static_cast<void>(cell.take(4));
    const std::uint64_t size = cell.varint();
    if (of_table) rowid = static_cast<std::int64_t>(cell.varint());
    if (cell.failed() || size > std::uint64_t{pages_} * kPageBytes) return std::nullopt;
    const std::size_t local = local_bytes(size, of_table);
    const ByteSpan here = cell.take(local);
    Bytes record(here.begin(), here.end());
    if (local < size && !cell.failed()) {
      auto next = static_cast<std::uint32_t>(cell.number(4));
      while (record.size() < size) {
        Page more;
        if (next == 0 || next > pages_ || !read(next, more)) return std::nullopt;
        const std::size_t part = std::min<std::size_t>(size - record.size(), kUsable - 4);
        record.insert(record.end(), more.begin() + 4,
                      more.begin() + 4 + static_cast<std::ptrdiff_t>(part));
        next = static_cast<std::uint32_t>(number_of(ByteSpan(more).first(4)));
      }
    }
    if (cell.failed()) return std::nullopt;
    return read_record(record);
  }

  /// Returns how many bytes of a record lie in its cell. The rest is in overflow pages.
  static std::size_t local_bytes(std::uint64_t size, bool of_table) {
    constexpr std::size_t kLeast = (kUsable - 12) * 32 / 255 - 23;
    const std::size_t most = of_table ? kUsable - 35 : (kUsable - 12) * 64 / 255 - 23;
    if (size <= most) return size;
    const std::size_t part = kLeast + (size - kLeast) % (kUsable - 4);
    return part <= most ? part : kLeast;
  }

  File& file_;
  const PageKey& key_;
  DatabaseId id_{};
  const std::uint32_t pages_;
  std::vector<bool> known_;  // by page number: belongs to a tree, or is free
};

Result<std::vector<TableShape>> read_shapes(Database& database) {
  S3O_ASSIGN(
      auto rows,
      database.prepare("SELECT type, name, rootpage, sql FROM sqlite_master WHERE rootpage > 0"));
  std::vector<TableShape> shapes;
  while (true) {
    S3O_ASSIGN(auto more, rows.step());
    if (!more) break;
    TableShape shape{.name = rows.text(0) == "table" ? rows.text(1) : std::string(),
                     .root = static_cast<std::uint32_t>(rows.integer(2)),
                     .has_rowid = rows.text(3).find("WITHOUT ROWID") == std::string::npos,
                     .columns = {},
                     .rowid = {}};
    shapes.push_back(std::move(shape));
  }
  for (TableShape& shape : shapes) {
    // A record without a rowid begins with the key.
    S3O_ASSIGN(auto columns, database.prepare(fmt::format(
                                 "SELECT name, pk, type FROM pragma_table_info(?) ORDER BY {}",
                                 shape.has_rowid ? "cid" : "pk = 0, pk, cid")));
    columns.bind(0, std::string_view(shape.name));
    while (true) {
      S3O_ASSIGN(auto more, columns.step());
      if (!more) break;
      if (shape.has_rowid && columns.integer(1) == 1 && columns.text(2) == "INTEGER")
        shape.rowid = shape.columns.size();
      shape.columns.push_back(columns.text(0));
    }
  }
  return shapes;
}

bool fits(const TableShape& shape, std::uint8_t kind, const Row& row) {
  if (shape.name.empty() || shape.has_rowid != (kind == kLeafTable)) return false;
  if (row.empty() || row.size() > shape.columns.size()) return false;
  return !shape.rowid ||
         (*shape.rowid < row.size() && std::holds_alternative<std::monostate>(row[*shape.rowid]));
}

void bind_value(Statement& statement, int at, const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value))
    statement.bind(at, *number);
  else if (const auto* text = std::get_if<std::string>(&value))
    statement.bind(at, std::string_view(*text));
  else if (const auto* blob = std::get_if<Bytes>(&value))
    statement.bind(at, ByteSpan(*blob));
  else
    statement.bind_null(at);  // none of our tables has reals
}

/// Inserts rows into the tables of `to`, unless a row with the same key exists.
class Insertion {
 public:
  explicit Insertion(Database& to) : to_(to) {}

  Status put(const TableShape& shape, std::int64_t rowid, const Row& row) {
    auto at = statements_.find(shape.name);
    if (at == statements_.end()) {
      std::string columns, marks;
      for (const std::string& column : shape.columns) {
        columns += fmt::format("{}\"{}\"", columns.empty() ? "" : ", ", column);
        marks += marks.empty() ? "?" : ", ?";
      }
      S3O_ASSIGN(auto put, to_.prepare(fmt::format(
                               "INSERT OR IGNORE INTO \"{}\" ({}) VALUES ({}) RETURNING 1",
                               shape.name, columns, marks)));
      at = statements_.emplace(shape.name, std::move(put)).first;
    }
    Statement& statement = at->second;
    for (std::size_t i = 0; i < shape.columns.size(); ++i)
      bind_value(statement, static_cast<int>(i), i < row.size() ? row[i] : Value());
    if (shape.rowid) statement.bind(static_cast<int>(*shape.rowid), rowid);
    const auto inserted = statement.step();
    if (!inserted && inserted.error().code == Errc::disk_full) return fail(inserted.error());
    if (inserted && *inserted) {
      ++count_[shape.name];
      statement.reset();
    }
    return {};
  }

  std::map<std::string, std::uint64_t> take_count() { return std::move(count_); }

 private:
  Database& to_;
  std::map<std::string, Statement> statements_;
  std::map<std::string, std::uint64_t> count_;
};

}  // namespace

Result<std::map<std::string, std::uint64_t>> copy_orphan_rows(const std::filesystem::path& from,
                                                              const std::filesystem::path& to,
                                                              Disk& disk) {
  std::error_code error;
  const auto pages =
      static_cast<std::uint32_t>(std::filesystem::file_size(from, error) / kPageBytes);
  S3O_ASSIGN(auto file, disk.open(from));
  std::vector<TableShape> shapes;
  {
    S3O_ASSIGN(auto database, Database::open(from.string(), Database::Mode::read_only, disk));
    S3O_ASSIGN(auto read, read_shapes(database));
    shapes = std::move(read);
  }
  std::map<std::string, std::uint64_t> none;
  Trees trees(*file, *disk.page_key(), error ? 0 : pages);
  if (!trees.start()) return none;
  static_cast<void>(trees.walk(1));
  std::erase_if(shapes, [&](const TableShape& shape) { return trees.walk(shape.root); });
  if (shapes.empty()) return none;
  S3O_ASSIGN(auto database, Database::open(to.string(), Database::Mode::read_write, disk));
  Insertion insertion(database);
  S3O_TRY(database.transact("orphans", [&]() -> Status {
    Status put;
    trees.visit_others([&](std::uint8_t kind, std::int64_t rowid, const Row& row) {
      const auto is_one = [&](const TableShape& shape) { return fits(shape, kind, row); };
      const auto shape = std::ranges::find_if(shapes, is_one);
      if (put && shape != shapes.end() && std::ranges::count_if(shapes, is_one) == 1)
        put = insertion.put(*shape, rowid, row);
    });
    return put;
  }));
  return insertion.take_count();
}

}  // namespace s3oram
