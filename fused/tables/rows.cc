// The SQL of the tables of files, and how rows are bound and read.
#include "fused/tables/rows.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace s3oram {
namespace {

// Inodes of files that were unlinked while open have nlink 0 until the kernel forgets them; the
// index `orphans` finds them at mount. The index `packed` finds the pieces in a pack (kPackedPlace
// and above).
constexpr auto kCreateTables = R"(
CREATE TABLE IF NOT EXISTS fs_state (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS inodes (ino INTEGER PRIMARY KEY, mode INTEGER NOT NULL, uid INTEGER NOT NULL,
  gid INTEGER NOT NULL, nlink INTEGER NOT NULL, rdev INTEGER NOT NULL, size INTEGER NOT NULL,
  blocks INTEGER NOT NULL, atime INTEGER NOT NULL, mtime INTEGER NOT NULL, ctime INTEGER NOT NULL,
  parent INTEGER NOT NULL, target BLOB NOT NULL, checksum INTEGER);
CREATE INDEX IF NOT EXISTS orphans ON inodes (ino) WHERE nlink = 0;
CREATE TABLE IF NOT EXISTS dentries (parent INTEGER NOT NULL, name BLOB NOT NULL, ino INTEGER NOT NULL,
  type INTEGER NOT NULL, checksum INTEGER, PRIMARY KEY (parent, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS extents (ino INTEGER NOT NULL, idx INTEGER NOT NULL, block INTEGER NOT NULL,
  valid INTEGER NOT NULL, checksum INTEGER, PRIMARY KEY (ino, idx)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS packed ON extents (block) WHERE block >= 4611686018427387904;
CREATE TABLE IF NOT EXISTS xattrs (ino INTEGER NOT NULL, name BLOB NOT NULL, value BLOB NOT NULL,
  checksum INTEGER, PRIMARY KEY (ino, name)) WITHOUT ROWID;
)";

constexpr std::int64_t kMostValid = 0xffff'ffff;

// All other values of an inode either can be repaired or do no harm.
constexpr auto kUnsoundInode =
    "ino < 1 OR ino > 4611686018427387904"
    " OR typeof(uid) <> 'integer' OR uid NOT BETWEEN 0 AND 4294967295"
    " OR typeof(gid) <> 'integer' OR gid NOT BETWEEN 0 AND 4294967295"
    " OR typeof(target) <> 'blob' OR length(target) > 4095 OR instr(target, x'00') > 0";
constexpr auto kUnsoundDentry =
    "typeof(parent) <> 'integer' OR parent < 1 OR parent > 4611686018427387904"
    " OR typeof(name) <> 'blob' OR typeof(ino) <> 'integer' OR ino < 1"
    " OR ino > 4611686018427387904";
constexpr auto kUnsoundXattr =
    "typeof(ino) <> 'integer' OR ino < 1 OR typeof(name) <> 'blob' OR typeof(value) <> 'blob'"
    " OR length(name) NOT BETWEEN 1 AND 255 OR length(value) > 65536";

/// Binds one column after another. SQLite's integers are signed, so unsigned 64-bit values are
/// stored with the same bits.
class Binder {
 public:
  Binder(Statement& statement, int at) : statement_(statement), at_(at) {}
  template <class Integer>
  Binder& integer(Integer value) {
    statement_.bind(at_++, static_cast<std::int64_t>(value));
    return *this;
  }
  Binder& blob(const std::string& value) {
    statement_.bind(at_++, as_bytes(value));
    return *this;
  }

 private:
  Statement& statement_;
  int at_;
};

class RowReader {
 public:
  RowReader(const Statement& statement, int at) : statement_(statement), at_(at) {}
  template <class Integer>
  void integer(Integer& value) {
    const std::int64_t stored = statement_.integer(at_);
    sound_ &= statement_.is_integer(at_++) && (sizeof value == 8 || std::in_range<Integer>(stored));
    value = static_cast<Integer>(stored);
  }
  void blob(std::string& value) {
    const Bytes bytes = statement_.blob(at_++);
    value.assign(bytes.begin(), bytes.end());
  }
  /// Returns whether all values read as integers were integers that fit their types.
  bool sound() const { return sound_; }

 private:
  const Statement& statement_;
  int at_;
  bool sound_ = true;
};

}  // namespace

Status make_tables(Database& database) {
  S3O_TRY(database.execute(kCreateTables));
  for (const TableSql& table : kTables) {
    S3O_ASSIGN(const auto there, database.has_column(table.name, "checksum"));
    if (!there)
      S3O_TRY(
          database.execute(fmt::format("ALTER TABLE {} ADD COLUMN checksum INTEGER", table.name)));
  }
  return {};
}

/// Looks in the last table that make_tables() changes.
Result<bool> has_checksums(Database& database) { return database.has_column("xattrs", "checksum"); }

std::string TableSql::descending() const {
  std::string all;
  for (const char* c = key; *c != '\0'; ++c) all += *c == ',' ? " DESC," : std::string(1, *c);
  return all + " DESC";
}

std::string TableSql::marks(int count) {
  std::string all;
  for (int i = 1; i <= count; ++i) all += fmt::format("{}?{}", i == 1 ? "" : ", ", i);
  return all;
}

std::string TableSql::put(const char* verb, bool changed) const {
  return fmt::format("{0} INTO {1} ({2}, checksum) VALUES ({3}, {4}row_checksum('{1}', {3}))", verb,
                     name, columns, marks(), changed ? "~" : "");
}

std::string TableSql::intact(bool checksums) const {
  if (!checksums) return "TRUE";
  return fmt::format("(checksum IS NULL OR checksum = row_checksum('{}', {}))", name, columns);
}

std::string unsound(const TableSql& table) {
  const std::string_view name = table.name;
  return name == InodeTable::kName    ? kUnsoundInode
         : name == DentryTable::kName ? kUnsoundDentry
         : name == XattrTable::kName  ? kUnsoundXattr
                                      : unsound_extent(1);
}

std::string unsound_extent(std::uint32_t block_size) {
  return fmt::format(
      "typeof(ino) <> 'integer' OR ino < 1 OR ino > {} OR typeof(idx) <> 'integer'"
      " OR idx NOT BETWEEN 0 AND {}",
      kLargestIno, (kLargestFile - 1) / block_size);
}

const char* name_problem(const std::string& name) {
  if (name.empty()) return "it is empty";
  if (name.size() > 255) return "it is longer than 255 bytes";
  if (name == "." || name == "..") return "no file may have that name";
  if (name.find('/') != std::string::npos) return "it contains a slash";
  if (name.find('\0') != std::string::npos) return "it contains a zero byte";
  return nullptr;
}

bool is_file_type(std::uint32_t type) {
  return type == S_IFREG || type == S_IFDIR || type == S_IFLNK || type == S_IFIFO ||
         type == S_IFSOCK || type == S_IFBLK || type == S_IFCHR;
}

void InodeTable::bind_key(Statement& statement, Key key) { Binder(statement, 0).integer(key); }
void InodeTable::bind_row(Statement& statement, const Row& row) {
  Binder(statement, kKeyWidth)
      .integer(row.mode)
      .integer(row.uid)
      .integer(row.gid)
      .integer(row.nlink)
      .integer(row.rdev)
      .integer(row.size)
      .integer(row.blocks)
      .integer(row.atime)
      .integer(row.mtime)
      .integer(row.ctime)
      .integer(row.parent)
      .blob(row.target);
}
InodeTable::Key InodeTable::key(const Statement& statement) {
  return static_cast<Ino>(statement.integer(0));
}
InodeTable::Row InodeTable::row(const Statement& statement, int at) {
  Row row;
  RowReader reader(statement, at);
  for (auto* field : {&row.mode, &row.uid, &row.gid, &row.nlink}) reader.integer(*field);
  for (auto* field : {&row.rdev, &row.size, &row.blocks}) reader.integer(*field);
  for (auto* field : {&row.atime, &row.mtime, &row.ctime}) reader.integer(*field);
  reader.integer(row.parent);
  reader.blob(row.target);
  if (!reader.sound()) spoil(row);
  return row;
}
void InodeTable::spoil(Row& row) { row.mode &= ~static_cast<std::uint32_t>(S_IFMT); }

void DentryTable::bind_key(Statement& statement, const Key& key) {
  Binder(statement, 0).integer(key.parent).blob(key.name);
}
void DentryTable::bind_row(Statement& statement, const Row& row) {
  Binder(statement, kKeyWidth).integer(row.ino).integer(row.type);
}
DentryTable::Key DentryTable::key(const Statement& statement) {
  Key key;
  RowReader reader(statement, 0);
  reader.integer(key.parent);
  reader.blob(key.name);
  return key;
}
DentryTable::Row DentryTable::row(const Statement& statement, int at) {
  Row row;
  RowReader reader(statement, at);
  reader.integer(row.ino);
  reader.integer(row.type);
  return row;
}
void DentryTable::spoil(Row& row) { row.type = 0; }

void ExtentTable::bind_key(Statement& statement, const Key& key) {
  Binder(statement, 0).integer(key.ino).integer(key.index);
}
void ExtentTable::bind_row(Statement& statement, const Row& row) {
  Binder(statement, kKeyWidth).integer(row.block).integer(row.valid);
}
ExtentTable::Key ExtentTable::key(const Statement& statement) {
  return {static_cast<Ino>(statement.integer(0)), static_cast<std::uint64_t>(statement.integer(1))};
}
ExtentTable::Row ExtentTable::row(const Statement& statement, int at) {
  const std::int64_t block = statement.integer(at), valid = statement.integer(at + 1);
  return {statement.is_integer(at) && block >= 0 ? static_cast<BlockId>(block) : kImpossibleBlock,
          static_cast<std::uint32_t>(std::clamp<std::int64_t>(valid, 0, kMostValid))};
}
void ExtentTable::spoil(Row& row) { row.block = kImpossibleBlock; }

void XattrTable::bind_key(Statement& statement, const Key& key) {
  Binder(statement, 0).integer(key.ino).blob(key.name);
}
void XattrTable::bind_row(Statement& statement, const Row& row) {
  Binder(statement, kKeyWidth).blob(row.value);
}
XattrTable::Key XattrTable::key(const Statement& statement) {
  Key key;
  RowReader reader(statement, 0);
  reader.integer(key.ino);
  reader.blob(key.name);
  return key;
}
XattrTable::Row XattrTable::row(const Statement& statement, int at) {
  Row row;
  RowReader(statement, at).blob(row.value);
  return row;
}
void XattrTable::spoil(Row& row) { row.damaged = true; }

}  // namespace s3oram
