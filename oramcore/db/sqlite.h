// A thin wrapper around SQLite. Every database of the project is opened here in the same way: WAL,
// synchronous=FULL (asserted), foreign keys off, and a busy timeout of zero for the single writer.
//
// A Database and its statements belong to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "oramcore/base/ballast.h"
#include "oramcore/base/bytes.h"
#include "oramcore/base/disk.h"
#include "oramcore/base/error.h"
#include "oramcore/base/file_watch.h"

struct sqlite3;
struct sqlite3_stmt;

namespace s3oram {

class Database;
class LogCopier;
class PageVfs;

/// A prepared statement. Bind positions and columns count from 0. Blobs and texts are copied.
class Statement {
 public:
  Statement() = default;
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();

  Statement& bind(int at, std::int64_t value);
  Statement& bind(int at, ByteSpan blob);
  Statement& bind(int at, std::string_view text);
  Statement& bind_real(int at, double value);
  Statement& bind_null(int at);

  /// Steps to the next row. Returns false at the end; the statement is then reset.
  Result<bool> step();
  /// Runs a statement that returns no rows, and resets it.
  Status run();
  /// Discards the remaining rows and all bound values.
  void reset();

  std::int64_t integer(int column) const;
  Bytes blob(int column) const;
  std::string text(int column) const;
  bool is_null(int column) const;
  bool is_integer(int column) const;
  bool is_text(int column) const;

 private:
  friend class Database;
  Statement(sqlite3* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}
  sqlite3* db_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
};

class Database {
 public:
  enum class Mode { read_write, create, read_only };

  /// Opens `path` on `disk`, which must outlive the database. If the disk has a page key, a new
  /// database is sealed with it (page_vfs.h); an existing plain one stays plain. Reading a damaged
  /// page of a sealed database fails, now or later, with damaged_vault and a message that names the
  /// file (or its log) and the page.
  static Result<Database> open(const std::string& path, Mode mode, Disk& disk = system_disk());

  Database();
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;
  ~Database();

  /// Runs one or several statements that return no rows.
  Status execute(const std::string& sql);
  /// Prepares a statement that is used many times. It must be destroyed before the Database.
  /// Errors: damaged_vault, including when a table is missing or has other columns.
  Result<Statement> prepare(std::string_view sql);

  /// Returns whether a table with that name exists.
  Result<bool> has_table(std::string_view name);

  /// Returns whether a table has a column with that name.
  Result<bool> has_column(std::string_view table, std::string_view column);

  /// Copies the log into the file, which is complete without the log afterwards. Errors: disk_full,
  /// vault_in_use (another connection is reading the database).
  Status fold_log();

  /// Reads bytes of the file of an attached database (`schema`) through its VFS, bypassing SQLite's
  /// cache and the log. Errors: damaged_vault (the bytes do not exist or cannot be read).
  Result<Bytes> read_file(const std::string& schema, std::uint64_t at, std::size_t size);

  /// Begins a transaction. SQLite ends it when a page cannot be read or the disk is full; what runs
  /// after that, until commit() or rollback(), fails instead of committing by itself.
  Status begin();
  /// Commits; durable on success. After an error the transaction is rolled back and leaves no
  /// trace. `what` names the transaction in error messages and to the disk (Disk::step).
  Status commit(std::string_view what);
  void rollback();
  /// Returns whether a transaction has begun, and no error has ended it.
  bool in_transaction() const;

  /// Runs fill(), which returns a Status, in a transaction; rolls back on any error. If the disk is
  /// full, gives up the ballast and runs fill() once more.
  template <class Fill>
  Status transact(std::string_view what, Fill fill) {
    Status status = try_transact(what, fill);
    if (!status && status.error().code == Errc::disk_full && ballast_ && ballast_->release())
      status = try_transact(what, fill);
    return status;
  }

  /// From now on, reserves `bytes` of room on the disk for transact(), in a file beside the
  /// database (PATH-ballast). Succeeds even if the disk is already full.
  Status keep_ballast(std::uint64_t bytes);
  /// Reserves the room again that was given up, if there is enough.
  void restore_ballast() {
    if (ballast_) ballast_->restore();
  }
  /// Calls Ballast::enlarge().
  bool enlarge_ballast(std::uint64_t bytes) { return !ballast_ || ballast_->enlarge(bytes); }
  /// While this is false, begin nothing that only adds data to the disk. Any thread.
  bool has_ballast() const { return !ballast_ || ballast_->whole(); }

  /// Checks that the database's name still leads to its commits. commit() checks that too. Errors:
  /// damaged_vault (someone else removed, replaced or truncated a file), failed (a file cannot be
  /// written).
  Status still_there() const;

  /// From now on still_there() also fails if the database's directory is replaced by another one.
  void watch_directory();

  /// Makes another thread's statements fail: those that run now, and those that begin while one of
  /// them has rows left. Any thread, while the database is open.
  void interrupt();

  /// Closes the database and leaves its files as they are, because someone has replaced or damaged
  /// them, and the log must not be copied into the current file. Statements must not be used any
  /// more.
  void abandon();

  const std::string& path() const { return path_; }
  Disk& disk() const { return *disk_; }

 private:
  template <class Fill>
  Status try_transact(std::string_view what, Fill& fill) {
    S3O_TRY(begin());
    Status status = fill();
    if (status) status = commit(what);
    if (!status) rollback();
    return status;
  }

  Status connect(int flags);
  Status choose_pages(Mode mode);
  Status name_format();
  Status promise_durability();

  std::unique_ptr<PageVfs> pages_;  // outlives the connections
  sqlite3* db_ = nullptr;
  Disk* disk_ = nullptr;
  std::string path_;
  std::unique_ptr<Ballast> ballast_;
  std::unique_ptr<LogCopier> copier_;
  FileWatch file_, log_;  // watch the files of a database that can be written
};

}  // namespace s3oram
