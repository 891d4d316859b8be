// The thread that ends migrations (migration_watch.h).
#include "fused/daemon/migration_watch.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "oramcore/base/threads.h"

namespace s3oram {
namespace {

constexpr std::chrono::seconds kLookEvery{1};
/// After an end that failed; doubled for each next one.
constexpr std::chrono::seconds kRetryAfter{1}, kLongestPause{60};

}  // namespace

Result<std::unique_ptr<MigrationWatch>> MigrationWatch::start(Volume& volume, FileSystem& files) {
  std::unique_ptr<MigrationWatch> watch(new MigrationWatch(volume, files));
  S3O_ASSIGN(watch->thread_,
             start_thread("looking after migrations", [it = watch.get()] { it->run(); }));
  return watch;
}

MigrationWatch::~MigrationWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MigrationWatch::leave_files() {
  const std::lock_guard lock(files_mutex_);
  may_use_files_ = false;
}

void MigrationWatch::run() {
  volume_.begin_copying();
  std::unique_lock lock(mutex_);
  do {
    lock.unlock();
    look();
    lock.lock();
  } while (!stopped_.wait_for(lock, kLookEvery, [this] { return stopping_; }));
}

void MigrationWatch::look() {
  if (!volume_.reopen()) return;  // it has logged why
  const auto migration = volume_.status().migration;
  if (!migration || !migration->is_open) return;
  if (!std::exchange(begun_, true))
    spdlog::info("blocks move here from other servers: {} of {} are left", migration->left,
                 migration->moved + migration->left);
  if (migration->left == 0 && std::chrono::steady_clock::now() >= next_end_) end();
}

/// After a failure tries again later: each try commits.
void MigrationWatch::end() {
  const std::lock_guard lock(files_mutex_);
  if (!may_use_files_) return;
  const Status ended = end_now();
  if (!ended) {
    pause_ = std::clamp(2 * pause_, kRetryAfter, kLongestPause);
    next_end_ = std::chrono::steady_clock::now() + pause_;
    return tell(ended.error().message);
  }
  spdlog::info(
      "all blocks have moved: the servers from which they came are no longer used. Delete their "
      "stores, and write a new recovery file (s3oramfs backup --keys)");
  pause_ = {};
  begun_ = false;
}

Status MigrationWatch::end_now() {
  // The last backup may be at the source, and copies of its blocks are not found as such.
  if (const auto backed_up = files_.back_up(); !backed_up)
    return fail(Errc::failed,
                "all blocks have moved; the migration ends once the names are backed up, which "
                "fails: {}",
                std::strerror(backed_up.error()));
  const Status ended = volume_.end_migration();
  if (ended) return {};
  return fail(ended.error().code, "all blocks have moved, but the migration cannot end: {}",
              ended.error().message);
}

void MigrationWatch::tell(const std::string& problem) {
  if (std::exchange(problem_, problem) != problem) spdlog::warn("{}", problem);
}

}  // namespace s3oram
