// An SQLite VFS that seals the pages of databases and of their logs, on top of any other VFS
// (page_seal.h). SQLite sees plain pages; the file system below never does. Reading a page that
// does not open fails (SQLITE_IOERR_DATA), and damage() says which page it was.
//
//   a database   new ones are sealed; one without reserved bytes is plain, and stays plain
//   its log      as its database; when SQLite begins to recover it, it is scanned for durable
//                frames that are no longer whole (log_scan.h)
//   a journal    passes: it holds no page, because databases are made empty and then have logs
//   other files  are refused: SQLite keeps temporary data in memory instead
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
  /// Works on top of the VFS registered with SQLite as `base` (if empty, the default one). `key`
  /// must outlive the PageVfs, and the PageVfs must outlive the connections that use it.
  PageVfs(const PageKey& key, const std::string& base);
  ~PageVfs();
  PageVfs(const PageVfs&) = delete;
  PageVfs& operator=(const PageVfs&) = delete;

  /// Returns the name under which it is registered with SQLite.
  const std::string& name() const { return name_; }
  /// Returns the damage that was found last: the file, and the place in it. Any thread.
  std::string damage() const;
  /// Returns the PageVfs of a connection; null if it has none.
  static const PageVfs* of(sqlite3* connection);
  /// Returns whether the connection's main database is sealed.
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
