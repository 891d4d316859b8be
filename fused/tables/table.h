// One table of the vault's database as file operations see it: SQLite rows under a write-behind
// overlay. Operations change the overlay at memory speed; a commit applies the changes as rows.
//
//   dirty_       changes that no commit holds yet
//   committing_  changes that the running commit holds; fixed while it runs
//   reader       rows of finished commits
//
// The newest of the three that knows a key answers; a change without a row is a deletion. Not
// thread-safe, except that apply() of fixed changes may run beside everything else.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fused/tables/rows.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {

/// `T` describes a table:
///   Key, Row                           Key is ordered as SQLite orders its columns
///   kName, kColumns, kKey              as in TableSql
///   kKeyWidth                          columns in the key
///   bind_key(Statement&, Key), bind_row(Statement&, Row)
///   key(Statement), row(Statement, first column)
///   spoil(Row&)                        makes it one that no operation uses
///   content(Row)                       bytes that the row has beside its members
template <class T>
class Table {
 public:
  using Key = typename T::Key;
  using Row = typename T::Row;
  using Changes = std::map<Key, std::optional<Row>>;

  /// The reader sees the table's rows; the table exists and the reader outlives this object.
  /// `checksums`: whether it has any yet.
  Status open(Database& reader, bool checksums) {
    const auto select =
        fmt::format("SELECT {}, {} FROM {}", T::kColumns, kSql.intact(checksums), T::kName);
    const auto marks = TableSql::marks(T::kKeyWidth);
    S3O_ASSIGN(auto find,
               reader.prepare(fmt::format("{} WHERE ({}) = ({})", select, T::kKey, marks)));
    S3O_ASSIGN(auto scan, reader.prepare(fmt::format("{} WHERE ({}) >= ({}) ORDER BY {}", select,
                                                     T::kKey, marks, T::kKey)));
    find_ = std::move(find);
    scan_ = std::move(scan);
    return {};
  }

  Result<std::optional<Row>> find(const Key& key) {
    for (const Changes* changes :
         std::initializer_list<const Changes*>{&dirty_, committing_.get()}) {
      if (auto at = changes->find(key); at != changes->end()) return at->second;
    }
    if (absent_ == key) return std::optional<Row>();
    T::bind_key(find_, key);
    S3O_ASSIGN(auto found, find_.step());
    if (!found) {
      absent_ = key;
      return std::optional<Row>();
    }
    std::optional<Row> row = row_of(find_);
    find_.reset();
    return row;
  }

  void put(const Key& key, Row row) { set(key, std::move(row)); }
  void erase(const Key& key) { set(key, std::nullopt); }

  /// Calls visit(key, row) for the rows of one inode in the order of the keys, from the first that
  /// is >= `from`, until it returns false. `visit` must not use the table.
  template <class Visit>
  Status scan(const Key& from, Visit visit) {
    auto newest = dirty_.lower_bound(from);
    auto older = committing_->lower_bound(from);
    T::bind_key(scan_, from);
    auto more = scan_.step();
    std::optional<Key> stored;  // the reader's next key
    bool go_on = true;
    while (go_on) {
      if (!more) return fail(more.error());
      if (*more && !stored) stored = T::key(scan_);
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
      if (!least) return {};                          // the statement was reset at its end
      if (inode_of(*least) != inode_of(from)) break;  // or it would look at all that are deleted
      if (!change) {
        go_on = visit(*least, row_of(scan_));
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
        more = scan_.step();
      }
    }
    scan_.reset();
    return {};
  }

  /// Fixes the changes of a commit that begins. One commit runs at a time.
  std::shared_ptr<const Changes> begin_commit() {
    committing_ = std::make_shared<const Changes>(std::exchange(dirty_, {}));
    bytes_ = 0;
    return committing_;
  }
  /// The commit has ended. Changes of a failed one are offered again; newer ones win.
  void end_commit(bool succeeded) {
    if (!succeeded)
      for (const auto& [key, row] : *committing_)
        if (!dirty_.contains(key)) set(key, row);
    committing_ = std::make_shared<const Changes>();
  }

  /// Writes `changes` to `database`, inside a transaction of the caller.
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

  /// Changes, those of a commit under way too.
  std::size_t uncommitted() const { return dirty_.size() + committing_->size(); }
  /// About how much memory those take that wait for a commit to begin.
  std::size_t uncommitted_bytes() const { return bytes_; }

 private:
  static constexpr TableSql kSql = kSqlOf<T>;
  static constexpr int kWidth = kSql.width();

  /// One that has changed by itself costs its file, and no more.
  static Row row_of(const Statement& found) {
    Row row = T::row(found, T::kKeyWidth);
    if (found.integer(kWidth) == 0) T::spoil(row);
    return row;
  }
  static std::size_t memory(const std::optional<Row>& change) {
    constexpr std::size_t kNode = 64;  // of a map, and of a name
    return kNode + sizeof(typename Changes::value_type) + (change ? T::content(*change) : 0);
  }
  void set(const Key& key, std::optional<Row> row) {
    const auto [at, is_new] = dirty_.try_emplace(key);
    if (!is_new) bytes_ -= memory(at->second);
    at->second = std::move(row);
    bytes_ += memory(at->second);
    if (absent_ == key) absent_.reset();
  }

  Statement find_, scan_;
  Changes dirty_;
  std::optional<Key> absent_;  // asked for last: the kernel looks for a name, and then makes it
  std::size_t bytes_ = 0;
  std::shared_ptr<const Changes> committing_ = std::make_shared<const Changes>();
};

}  // namespace s3oram
