// An SQLite VFS that seals the pages of databases, and of their logs, over any other one
// (page_seal.h). SQLite sees plain pages; the file system below never does. A page that does not
// open fails the read (SQLITE_IOERR_DATA), and damage() says which.
//
//   a database   new ones are sealed; one without reserved bytes is plain, and passes as it is
//   its log      as its database; when SQLite begins to recover it, it is looked through for frames
//                that were durable and are not whole any more (log_scan.h)
//   a journal    passes: it holds no page, because databases are made empty and then have logs
//   other files  are refused: what SQLite would put into temporary files stays in memory
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "oramcore/db/page_seal.h"

struct sqlite3;

namespace s3oram {

class PageVfs {
 public:
  /// Over the VFS that SQLite knows as `base` (empty: its default). `key` must outlive it, and it
  /// the connections that use it.
  PageVfs(const PageKey& key, const std::string& base);
  ~PageVfs();
  PageVfs(const PageVfs&) = delete;
  PageVfs& operator=(const PageVfs&) = delete;

  /// What SQLite knows it as.
  const std::string& name() const { return name_; }
  /// The damage that was found last: the file, and where in it. Any thread.
  std::string damage() const;
  /// The PageVfs of a connection, if it has one.
  static const PageVfs* of(sqlite3* connection);
  /// Whether the connection's main database is sealed.
  static bool seals(sqlite3* connection);

  // ---- for its files

  const PageKey& key() const { return key_; }
  void note_damage(std::string what);

 private:
  struct Registered;
  const PageKey& key_;
  std::string name_;
  std::unique_ptr<Registered> registered_;
  mutable std::mutex mutex_;
  std::string damage_;
};

}  // namespace s3oram
