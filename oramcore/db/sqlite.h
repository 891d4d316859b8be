// A thin wrapper over SQLite. Every database of the project is opened here in the same way: WAL,
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
  /// Drops the rest of the rows and all bound values.
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
  /// page of a sealed database fails, here or later, with damaged_vault and a message that names
  /// the file (or its log) and the page.
  static Result<Database> open(const std::string& path, Mode mode, Disk& disk = system_disk());

  Database();
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;
  ~Database();

  /// Runs one or several statements that return no rows.
  Status execute(const std::string& sql);
  /// Prepares a statement that is used many times. It must be destroyed before the Database.
  /// Errors: damaged_vault, also if a table is missing or has other columns.
  Result<Statement> prepare(std::string_view sql);

  /// Returns whether there is a table of that name.
  Result<bool> has_table(std::string_view name);

  /// Returns whether a table has a column of that name.
  Result<bool> has_column(std::string_view table, std::string_view column);

  /// Copies the log into the file, which is whole without it afterwards. Errors: disk_full,
  /// vault_in_use (another connection is reading the database).
  Status fold_log();

  /// Reads bytes of the file of an attached database (`schema`) through its VFS, without SQLite's
  /// cache and without the log. Errors: damaged_vault (they do not exist or cannot be read).
  Result<Bytes> read_file(const std::string& schema, std::uint64_t at, std::size_t size);

  Status begin() { return execute("BEGIN IMMEDIATE"); }
  /// Commits; durable on success. After an error the transaction is rolled back and leaves no
  /// trace. `what` names the transaction in error messages and to the disk (Disk::step).
  Status commit(std::string_view what);
  void rollback();

  /// Runs fill(), which returns a Status, in a transaction; rolls back on any error. If the disk is
  /// full, gives up the ballast and runs fill() once more.
  template <class Fill>
  Status transact(std::string_view what, Fill fill) {
    Status status = try_transact(what, fill);
    if (!status && status.error().code == Errc::disk_full && ballast_ && ballast_->release())
      status = try_transact(what, fill);
    return status;
  }

  /// Keeps `bytes` of room on the disk for transact() from now on, in a file beside the database
  /// (PATH-ballast). Succeeds if the disk is already full.
  Status keep_ballast(std::uint64_t bytes);
  /// Takes back the room that was given up, if there is enough.
  void restore_ballast() {
    if (ballast_) ballast_->restore();
  }
  /// Calls Ballast::enlarge().
  bool enlarge_ballast(std::uint64_t bytes) { return !ballast_ || ballast_->enlarge(bytes); }
  /// While this is false, begin nothing that only adds to the disk. Any thread.
  bool has_ballast() const { return !ballast_ || ballast_->whole(); }

  /// Checks that commits can be found again by the database's name. commit() checks it too. Errors:
  /// damaged_vault (somebody else removed, replaced or truncated a file), failed (it cannot be
  /// written).
  Status still_there() const;

  /// From now on still_there() also fails if another directory takes the place of the database's.
  void watch_directory();

  /// Makes fail what another thread is doing with the database, and what it goes on to do while a
  /// statement has rows left. Any thread, while the database is open.
  void interrupt();

  /// Closes the database and leaves its files as they are: somebody has replaced or damaged them,
  /// so the log must not be copied into the present file. Statements must not be used any more.
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
  FileWatch file_, log_;  // of one that can be written
};

}  // namespace s3oram
