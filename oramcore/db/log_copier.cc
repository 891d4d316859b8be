// The thread that copies a database's log, and the decision which thread copies which pages.
#include "oramcore/db/log_copier.h"

#include <spdlog/spdlog.h>
#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <system_error>

#include "oramcore/db/page_vfs.h"

namespace s3oram {
namespace {

// Numbers of pages in the log, or not yet copied.
constexpr int kLong = 1000, kTooLong = 4 * kLong, kLittle = 64;

/// Copies the log and returns how many pages are copied by then; 0 if unknown. Pages that cannot be
/// copied, for example on a full disk, stay in the log and are tried again.
int copy(sqlite3* database) {
  int in_log = 0, copied = 0;
  static std::atomic<bool> told = false;
  const int rc =
      sqlite3_wal_checkpoint_v2(database, nullptr, SQLITE_CHECKPOINT_PASSIVE, &in_log, &copied);
  if (rc == SQLITE_OK) return std::max(copied, 0);
  const bool damaged = sqlite3_extended_errcode(database) == SQLITE_IOERR_DATA;
  if (const PageVfs* pages = PageVfs::of(database); damaged && pages && !told.exchange(true))
    spdlog::error("{}: the log cannot be copied, and grows; unmount and run s3oramfs fsck",
                  pages->damage());
  return 0;
}

}  // namespace

LogCopier::~LogCopier() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
}

int LogCopier::after_commit(void* copier, sqlite3* database, const char*, int pages_in_log) {
  if (static_cast<LogCopier*>(copier)->should_copy_rest(pages_in_log)) copy(database);
  return SQLITE_OK;
}

bool LogCopier::should_copy_rest(int pages) {
  const std::lock_guard lock(mutex_);
  if (pages < pages_) copied_ = 0;  // SQLite has started the log again
  pages_ = pages;
  if (pages < kLong || wanted_) return false;
  if (pages - copied_ <= kLittle || pages >= kTooLong) return true;
  try {
    if (!thread_.joinable()) thread_ = std::jthread([this] { work(); });
  } catch (const std::system_error&) {
    return true;  // the system provides no more threads
  }
  wanted_ = true;
  changed_.notify_all();
  return false;
}

void LogCopier::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !wanted_; });
}

void LogCopier::work() {
  sqlite3* database = nullptr;
  sqlite3_open_v2(path_.c_str(), &database, SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE,
                  vfs_.empty() ? nullptr : vfs_.c_str());
  // A connection opens the log only when it reads something.
  const int opened = sqlite3_exec(database, "PRAGMA synchronous=FULL; SELECT 1 FROM sqlite_master",
                                  nullptr, nullptr, nullptr);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return wanted_ || ending_; });
    if (ending_) break;
    lock.unlock();
    const int copied = opened == SQLITE_OK ? copy(database) : 0;
    lock.lock();
    copied_ = std::min(copied, pages_);
    wanted_ = false;
    changed_.notify_all();
  }
  lock.unlock();
  sqlite3_close_v2(database);
}

}  // namespace s3oram
