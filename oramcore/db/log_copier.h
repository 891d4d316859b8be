// Copies a database's log into it while commits go on. SQLite by itself has the commit that makes
// the log long do it: at a few hundred commits a second, one in a hundred would take ten times as
// long as the others.
//
// SQLite begins the log anew with the next commit once all of it is copied. There is always
// something new when a copy is done; so the thread of the commits copies what is little.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

struct sqlite3;

namespace s3oram {

class LogCopier {
 public:
  /// Of the database at `path`, which is open meanwhile through the VFS that SQLite knows as `vfs`
  /// (empty: its default). Its thread begins with the first copy.
  explicit LogCopier(std::string path, std::string vfs = {})
      : path_(std::move(path)), vfs_(std::move(vfs)) {}
  /// Waits for a copy under way.
  ~LogCopier();
  LogCopier(const LogCopier&) = delete;
  LogCopier& operator=(const LogCopier&) = delete;

  /// Copies when `database`, on its own thread, has committed something; a sqlite3_wal_hook().
  /// `copier` is a LogCopier.
  static int after_commit(void* copier, sqlite3* database, const char* name, int pages_in_log);
  /// Waits until no copy is under way.
  void wait();

 private:
  bool should_copy_rest(int pages);
  void work();

  const std::string path_, vfs_;
  std::mutex mutex_;  // guards what follows, but the thread
  std::condition_variable changed_;
  int pages_ = 0;   // in the log
  int copied_ = 0;  // of them
  bool wanted_ = false, ending_ = false;
  std::jthread thread_;  // of the commits' thread
};

}  // namespace s3oram
