// The rows of a file system, and how the tables of vault.db store them. make_tables() defines the
// format; a change to it must change kFormat.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "oramcore/db/sqlite.h"
#include "oramcore/oram/block_device.h"

namespace s3oram {

using Ino = std::uint64_t;
inline constexpr Ino kRootIno = 1;

/// In bytes.
inline constexpr std::uint64_t kLargestFile = std::numeric_limits<std::int64_t>::max();
/// No inode has a number above kLargestIno. New inodes get numbers up to kLargestNewIno.
inline constexpr Ino kLargestIno = Ino{1} << 62, kLargestNewIno = kLargestIno / 2;
/// A damaged extent is read as naming this place.
inline constexpr BlockId kImpossibleBlock = ~BlockId{0};

inline constexpr std::int64_t kFormat = 2;
/// Selects the format of the existing tables.
inline constexpr auto kSelectFormat = "SELECT value FROM fs_state WHERE name = 'format'";
/// Creates the tables of the file system and their checksum columns, unless they exist, beside the
/// device's own tables in the same database.
Status make_tables(Database& database);
/// Returns whether the tables have checksum columns.
Result<bool> has_checksums(Database& database);

/// A table in SQL. Each table also has a column `checksum`: row_checksum(name, columns...), or null
/// in rows that a version without checksums wrote.
struct TableSql {
  const char *name, *columns, *key;  // separated by commas; the key comes first
  /// Returns the number of columns.
  constexpr int width() const {
    const std::string_view all = columns;
    return 1 + static_cast<int>(std::count(all.begin(), all.end(), ','));
  }
  /// Returns the number of columns in the key.
  constexpr int key_width() const {
    const std::string_view all = key;
    return 1 + static_cast<int>(std::count(all.begin(), all.end(), ','));
  }
  constexpr std::string_view first_column() const {
    const std::string_view all = key;
    return all.substr(0, all.find(','));
  }
  /// Returns the key's columns, each with DESC, for ORDER BY.
  std::string descending() const;
  /// Returns "?1, ?2, ..." for the first `count` columns, or for all columns.
  static std::string marks(int count);
  std::string marks() const { return marks(width()); }
  /// Returns the SQL statement `verb` (such as INSERT) INTO the table, with a parameter for each
  /// column. It also computes and stores the row's checksum. `changed` stores a wrong checksum,
  /// which marks the row as damaged.
  std::string put(const char* verb, bool changed = false) const;
  /// Returns the SQL condition that a row matches its checksum or has none. `checksums`: whether
  /// the table has a checksum column.
  std::string intact(bool checksums = true) const;
};
template <class T>
constexpr TableSql kSqlOf{T::kName, T::kColumns, T::kKey};

struct InodeRow {
  std::uint32_t mode = 0, uid = 0, gid = 0, nlink = 0;
  std::uint64_t rdev = 0;
  std::uint64_t size = 0;                        // bytes
  std::uint64_t blocks = 0;                      // extents
  std::int64_t atime = 0, mtime = 0, ctime = 0;  // ns since 1970
  Ino parent = 0;                                // only for a directory
  std::string target;                            // only for a symbolic link
  friend bool operator==(const InodeRow&, const InodeRow&) = default;
};

struct DentryKey {
  Ino parent = 0;
  std::string name;
  friend auto operator<=>(const DentryKey&, const DentryKey&) = default;
};
/// Returns what is wrong with a name in a directory; null if nothing is.
const char* name_problem(const std::string& name);
/// Returns whether the type bits of a mode name a kind of file.
bool is_file_type(std::uint32_t type);
/// The bits of a mode without its type.
inline constexpr std::uint32_t kPermissions = 07777;

struct DentryRow {
  Ino ino = 0;
  std::uint32_t type = 0;  // S_IFMT bits of its mode
};

/// Block `index` of a file.
struct ExtentKey {
  Ino ino = 0;
  std::uint64_t index = 0;
  friend auto operator<=>(const ExtentKey&, const ExtentKey&) = default;
};
struct ExtentRow {
  BlockId block = 0;        // or a place in a pack (place.h)
  std::uint32_t valid = 0;  // bytes that hold data, from its start; all others read as zero
};

struct XattrKey {
  Ino ino = 0;
  std::string name;
  friend auto operator<=>(const XattrKey&, const XattrKey&) = default;
};

/// Returns the inode that the row belongs to.
inline Ino inode_of(Ino key) { return key; }
inline Ino inode_of(const DentryKey& key) { return key.parent; }
inline Ino inode_of(const ExtentKey& key) { return key.ino; }
inline Ino inode_of(const XattrKey& key) { return key.ino; }

/// Descriptions of the tables for Table<> (table.h).
struct InodeTable {
  using Key = Ino;
  using Row = InodeRow;
  static constexpr auto kName = "inodes";
  static constexpr auto kColumns =
      "ino, mode, uid, gid, nlink, rdev, size, blocks, atime, mtime, ctime, parent, target";
  static constexpr auto kKey = "ino";
  static constexpr int kKeyWidth = 1;
  static void bind_key(Statement& statement, Key key);
  static void bind_row(Statement& statement, const Row& row);
  static Key key(const Statement& statement);
  static Row row(const Statement& statement, int at);
  static void spoil(Row& row);
  static std::size_t content(const Row& row) { return row.target.size(); }
};

struct DentryTable {
  using Key = DentryKey;
  using Row = DentryRow;
  static constexpr auto kName = "dentries";
  static constexpr auto kColumns = "parent, name, ino, type";
  static constexpr auto kKey = "parent, name";
  static constexpr int kKeyWidth = 2;
  static void bind_key(Statement& statement, const Key& key);
  static void bind_row(Statement& statement, const Row& row);
  static Key key(const Statement& statement);
  static Row row(const Statement& statement, int at);
  static void spoil(Row& row);
  static std::size_t content(const Row&) { return 0; }
};

struct ExtentTable {
  using Key = ExtentKey;
  using Row = ExtentRow;
  static constexpr auto kName = "extents";
  static constexpr auto kColumns = "ino, idx, block, valid";
  static constexpr auto kKey = "ino, idx";
  static constexpr int kKeyWidth = 2;
  static void bind_key(Statement& statement, const Key& key);
  static void bind_row(Statement& statement, const Row& row);
  static Key key(const Statement& statement);
  static Row row(const Statement& statement, int at);
  static void spoil(Row& row);
  static std::size_t content(const Row&) { return 0; }
};

struct XattrRow {
  std::string value;
  bool damaged = false;
};

struct XattrTable {
  using Key = XattrKey;
  using Row = XattrRow;
  static constexpr auto kName = "xattrs";
  static constexpr auto kColumns = "ino, name, value";
  static constexpr auto kKey = "ino, name";
  static constexpr int kKeyWidth = 2;
  static void bind_key(Statement& statement, const Key& key);
  static void bind_row(Statement& statement, const Row& row);
  static Key key(const Statement& statement);
  static Row row(const Statement& statement, int at);
  static void spoil(Row& row);
  static std::size_t content(const Row& row) { return row.value.size(); }
};

/// Returns the SQL condition that a row of the table holds impossible values, whatever its checksum
/// is.
std::string unsound(const TableSql& table);
/// Returns that condition for `extents`, in files with blocks of `block_size` bytes.
std::string unsound_extent(std::uint32_t block_size);

/// All tables, in the order of their numbers in a backup.
inline constexpr TableSql kTables[] = {kSqlOf<InodeTable>, kSqlOf<DentryTable>, kSqlOf<ExtentTable>,
                                       kSqlOf<XattrTable>};

}  // namespace s3oram
