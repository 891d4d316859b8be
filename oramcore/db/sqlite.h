// A thin wrapper over SQLite: the only place that speaks its C interface. Every database of the
// project is opened here with the same promises: WAL, synchronous=FULL (asserted), foreign keys
// off, and a busy timeout of zero for the single writer.
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

  /// Steps to the next row: true if there is one, false at the end (the statement is then reset).
  Result<bool> step();
  /// Runs a statement that gives no rows, and resets it.
  Status run();
  /// Forgets the rest of the rows; keeps nothing bound.
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
  /// database is sealed with it (page_vfs.h); a plain one that is there stays plain.
  /// A page that has changed by itself is damaged_vault where it is first read, here or later, by a
  /// message that names the file (also its log) and the page.
  static Result<Database> open(const std::string& path, Mode mode, Disk& disk = system_disk());

  Database();
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;
  ~Database();

  /// Runs one or several statements that give no rows.
  Status execute(const std::string& sql);
  /// Prepares a statement that is kept and used many times. It must die before the Database.
  /// Errors: damaged_vault also if a table is not what it should be.
  Result<Statement> prepare(std::string_view sql);

  /// Whether there is a table of that name.
  Result<bool> has_table(std::string_view name);

  /// Whether a table has a column of that name.
  Result<bool> has_column(std::string_view table, std::string_view column);

  /// Takes the log into the file, which then is whole by itself. Errors: disk_full, vault_in_use
  /// (another connection reads it).
  Status fold_log();

  /// Bytes of the file of an attached database (`schema`), as its VFS gives them: past SQLite's
  /// cache, and past the log. Errors: damaged_vault (there are none, or they cannot be read).
  Result<Bytes> read_file(const std::string& schema, std::uint64_t at, std::size_t size);

  Status begin() { return execute("BEGIN IMMEDIATE"); }
  /// Durable on success. After an error the transaction is rolled back and nothing of it remains.
  /// `what` names the transaction, in error messages and to the disk (Disk::step).
  Status commit(std::string_view what);
  void rollback();

  /// A transaction of what fill() does, which returns a Status; rolled back on any error. When the
  /// disk is full the ballast is given up, and fill() runs once more.
  template <class Fill>
  Status transact(std::string_view what, Fill fill) {
    Status status = try_transact(what, fill);
    if (!status && status.error().code == Errc::disk_full && ballast_ && ballast_->release())
      status = try_transact(what, fill);
    return status;
  }

  /// From now on keeps `bytes` of room on the disk for transact(), in a file beside the database
  /// (PATH-ballast). A disk that is full already is no error.
  Status keep_ballast(std::uint64_t bytes);
  /// Takes the room again that was given up, as soon as there is some.
  void restore_ballast() {
    if (ballast_) ballast_->restore();
  }
  /// While there is none, nothing that only adds to the disk should be begun. Any thread.
  /// Ballast::enlarge().
  bool enlarge_ballast(std::uint64_t bytes) { return !ballast_ || ballast_->enlarge(bytes); }
  bool has_ballast() const { return !ballast_ || ballast_->whole(); }

  /// Whether what is committed can be found again by the database's name. commit() asks it too.
  /// Errors: damaged_vault (a file was removed, replaced or cut short by somebody else), failed (it
  /// cannot be written).
  Status still_there() const;

  /// Another directory in the place of the database's is another database, from now on.
  void watch_directory();

  /// Closes the database and leaves its files as they are: somebody has exchanged or damaged them,
  /// and the log must not be copied into what is there now. Statements must not be used any more.
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
