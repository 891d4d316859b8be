// One table of vault.db as file operations see it: SQLite rows under a write-behind overlay.
// Operations change the overlay at memory speed; a commit applies the changes as rows.
//
//   dirty_       changes that no commit holds yet
//   committing_  changes that the running commit holds; fixed while it runs
//   reader       rows of finished commits
//
// The newest of the three that has a key decides; a change without a row is a deletion. Not
// thread-safe, except that apply() of fixed changes may run at the same time as everything else.
//
// SQLite believes every row that it reads from the disk. If a bit of a row has flipped, a search
// may take the wrong direction and miss the row it looks for. So a key counts as absent only if
// both rows between which it would stand match their checksums: every search that a damaged row
// misleads ends beside that row.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fused/tables/rows.h"
#include "fused/tables/table_damage.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {

/// `T` describes a table:
///   Key, Row                           Key is ordered as SQLite orders its columns
///   kName, kColumns, kKey              as in TableSql
///   kKeyWidth                          columns in the key
///   bind_key(Statement&, Key), bind_row(Statement&, Row)
///   key(Statement), row(Statement, first column)
///   spoil(Row&)                        marks the row as damaged, so that no operation uses it
///   content(Row)                       bytes that the row holds outside of its members
template <class T>
class Table {
 public:
  using Key = typename T::Key;
  using Row = typename T::Row;
  using Changes = std::map<Key, std::optional<Row>>;

  /// Prepares to read the table through `reader`. The table must exist; `reader` and `damage` must
  /// outlive this object. `checksums`: whether the table has a checksum column.
  Status open(Database& reader, bool checksums, TableDamage& damage) {
    const auto select =
        fmt::format("SELECT {}, {} FROM {}", T::kColumns, kSql.intact(checksums), T::kName);
    const auto marks = TableSql::marks(T::kKeyWidth);
    S3O_ASSIGN(auto scan, reader.prepare(fmt::format("{} WHERE ({}) >= ({}) ORDER BY {}", select,
                                                     T::kKey, marks, T::kKey)));
    S3O_ASSIGN(auto before, reader.prepare(fmt::format("{} WHERE ({}) < ({}) ORDER BY {} LIMIT 1",
                                                       select, T::kKey, marks, kSql.descending())));
    // When SQLite compares whole keys, it leaves out rows whose damaged keys do not match. When it
    // compares only the first column, it leaves out none.
    S3O_ASSIGN(auto start, reader.prepare(fmt::format("{} WHERE {} >= ?1 ORDER BY {}", select,
                                                      kSql.first_column(), T::kKey)));
    scan_ = std::move(scan);
    start_ = std::move(start);
    before_ = std::move(before);
    damage_ = &damage;
    return {};
  }

  /// Returns the row; std::nullopt if there is none. Errors: damaged_vault, also if damage may hide
  /// the row.
  Result<std::optional<Row>> find(const Key& key) {
    for (const Changes* changes :
         std::initializer_list<const Changes*>{&dirty_, committing_.get()}) {
      if (auto at = changes->find(key); at != changes->end()) return at->second;
    }
    if (absent_ == key) return std::optional<Row>();
    auto found = find_stored(key);
    if (!found) return fail(noted(found.error()));
    if (!*found) absent_ = key;
    return found;
  }

  void put(const Key& key, Row row) { set(key, std::move(row)); }
  void erase(const Key& key) { set(key, std::nullopt); }

  /// Calls visit(key, row) for the rows of one inode in the order of the keys, from the first that
  /// is >= `from`, until it returns false. `visit` must not use the table. Returns whether scan()
  /// certainly saw all of them, because no damaged row lies among them or beside them.
  template <class Visit>
  Result<bool> scan(const Key& from, Visit visit) {
    auto newest = dirty_.lower_bound(from);
    auto older = committing_->lower_bound(from);
    bool whole = true;
    std::optional<Key> stored;  // the reader's next key
    const bool from_start = from == Key{inode_of(from), {}};
    Statement& rows = from_start ? start_ : scan_;
    if (from_start)
      rows.bind(0, static_cast<std::int64_t>(inode_of(from)));
    else
      T::bind_key(rows, from);
    auto more = rows.step();
    if (more && !(*more && T::key(rows) == from)) {
      const auto begins = begins_at(from);
      if (!begins) return fail(noted(begins.error()));
      whole = *begins;
    }
    std::optional<Key> last = from;  // the next key must not come before it
    bool go_on = true;
    while (go_on) {
      if (!more) return fail(noted(more.error()));
      if (*more && !stored) {
        stored = T::key(rows);
        whole &= is_intact(rows) && !(*stored < *last);
        last = stored;
      }
      const Key* least = stored ? &*stored : nullptr;
      const std::optional<Row>* change = nullptr;
      if (older != committing_->end() && (!least || !(*least < older->first))) {
        least = &older->first;
        change = &older->second;
      }
      if (newest != dirty_.end() && (!least || !(*least < newest->first))) {
        least = &newest->first;
        change = &newest->second;
      }
      if (!least) return whole;                       // the statement was reset at its end
      if (inode_of(*least) != inode_of(from)) break;  // otherwise it would visit other inodes' rows
      if (!change) {
        go_on = visit(*least, row_of(rows));
      } else if (*change) {
        go_on = visit(*least, **change);
      }
      // Step over this key wherever it stands. The reader goes last: `least` may point into it.
      const bool in_newest = newest != dirty_.end() && !(*least < newest->first);
      const bool in_older = older != committing_->end() && !(*least < older->first);
      const bool in_reader = stored && !(*least < *stored);
      if (in_newest) ++newest;
      if (in_older) ++older;
      if (in_reader) {
        stored.reset();
        more = rows.step();
      }
    }
    rows.reset();
    return whole;
  }

  /// Fixes the changes of a commit that begins, and returns them. Only one commit runs at a time.
  std::shared_ptr<const Changes> begin_commit() {
    committing_ = std::make_shared<const Changes>(std::exchange(dirty_, {}));
    bytes_ = 0;
    return committing_;
  }
  /// Called when the commit has ended. If it failed, its changes go into the next commit, unless
  /// newer ones replace them.
  void end_commit(bool succeeded) {
    if (!succeeded)
      for (const auto& [key, row] : *committing_)
        if (!dirty_.contains(key)) set(key, row);
    committing_ = std::make_shared<const Changes>();
  }

  /// Writes `changes` to `database`, in a transaction of the caller.
  static Status apply(Database& database, const Changes& changes) {
    if (changes.empty()) return {};
    S3O_ASSIGN(auto put, database.prepare(kSql.put("INSERT OR REPLACE")));
    S3O_ASSIGN(auto erase,
               database.prepare(fmt::format("DELETE FROM {} WHERE ({}) = ({})", T::kName, T::kKey,
                                            TableSql::marks(T::kKeyWidth))));
    for (const auto& [key, row] : changes) {
      Statement& statement = row ? put : erase;
      T::bind_key(statement, key);
      if (row) T::bind_row(statement, *row);
      S3O_TRY(statement.run());
    }
    return {};
  }

  /// Returns the number of changes, including those of a commit under way.
  std::size_t uncommitted() const { return dirty_.size() + committing_->size(); }
  /// Returns about how many bytes of memory are taken by the changes that no commit contains yet.
  std::size_t uncommitted_bytes() const { return bytes_; }

 private:
  static constexpr TableSql kSql = kSqlOf<T>;
  static constexpr int kWidth = kSql.width();

  static bool is_intact(const Statement& found) { return found.integer(kWidth) != 0; }
  /// Returns the row; if it does not match its checksum, spoils it, so that damage costs no more
  /// than its file.
  Row row_of(const Statement& found) {
    Row row = T::row(found, T::kKeyWidth);
    if (is_intact(found)) return row;
    damage_->note(fmt::format("vault.db, table {}: a row of inode {} is not as it was written",
                              T::kName, inode_of(T::key(found))));
    T::spoil(row);
    return row;
  }
  const Error& noted(const Error& error) {
    if (error.code == Errc::damaged_vault)
      damage_->note(fmt::format("vault.db, table {}: {}", T::kName, error.message));
    return error;
  }

  Result<std::optional<Row>> find_stored(const Key& key) {
    T::bind_key(scan_, key);
    S3O_ASSIGN(const auto next, scan_.step());
    if (next && T::key(scan_) == key) {
      std::optional<Row> row = row_of(scan_);
      scan_.reset();
      return row;
    }
    const bool ends = !next || (is_intact(scan_) && key < T::key(scan_));
    scan_.reset();
    S3O_ASSIGN(const auto begins, begins_at(key));
    if (ends && begins) return std::optional<Row>();
    return fail(Errc::damaged_vault, "a row of inode {} may be lost, or hidden by a damaged one",
                inode_of(key));
  }

  /// Returns whether the row before `key` is sound, so that it hides no row >= `key`.
  Result<bool> begins_at(const Key& key) {
    T::bind_key(before_, key);
    S3O_ASSIGN(const auto before, before_.step());
    const bool begins = !before || (is_intact(before_) && T::key(before_) < key);
    before_.reset();
    return begins;
  }
  static std::size_t memory(const std::optional<Row>& change) {
    constexpr std::size_t kNode = 64;  // bytes for the node of a map, and for a name
    return kNode + sizeof(typename Changes::value_type) + (change ? T::content(*change) : 0);
  }
  void set(const Key& key, std::optional<Row> row) {
    const auto [at, is_new] = dirty_.try_emplace(key);
    if (!is_new) bytes_ -= memory(at->second);
    at->second = std::move(row);
    bytes_ += memory(at->second);
    if (absent_ == key) absent_.reset();
  }

  Statement scan_, start_, before_;
  TableDamage* damage_ = nullptr;
  Changes dirty_;
  std::optional<Key> absent_;  // last key not found: the kernel looks a name up, then makes it
  std::size_t bytes_ = 0;
  std::shared_ptr<const Changes> committing_ = std::make_shared<const Changes>();
};

}  // namespace s3oram
