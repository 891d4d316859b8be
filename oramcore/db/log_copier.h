// Copies a database's log into the database while commits continue. By default SQLite does this
// during the commit that fills the log: at a few hundred commits per second, one in a hundred would
// take ten times as long as the others.
//
// Once the whole log is copied, SQLite's next commit starts it again at its beginning. By the time
// the copier is done there are always new pages, so the thread of the commits copies the last few
// itself.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

struct sqlite3;

namespace s3oram {

class LogCopier {
 public:
  /// Copies for the database at `path`, which must stay open. Uses the VFS registered with SQLite
  /// as `vfs` (if empty, the default one). The thread starts with the first copy.
  explicit LogCopier(std::string path, std::string vfs = {})
      : path_(std::move(path)), vfs_(std::move(vfs)) {}
  /// Waits for a copy that is under way.
  ~LogCopier();
  LogCopier(const LogCopier&) = delete;
  LogCopier& operator=(const LogCopier&) = delete;

  /// A sqlite3_wal_hook(): called on the thread of `database` after each commit. `copier` is a
  /// LogCopier.
  static int after_commit(void* copier, sqlite3* database, const char* name, int pages_in_log);
  /// Waits until no copy is under way.
  void wait();

 private:
  bool should_copy_rest(int pages);
  void work();

  const std::string path_, vfs_;
  std::mutex mutex_;  // guards the members below, except the thread
  std::condition_variable changed_;
  int pages_ = 0;   // pages in the log
  int copied_ = 0;  // pages already copied
  bool wanted_ = false, ending_ = false;
  std::jthread thread_;  // used only by the thread that commits
};

}  // namespace s3oram
