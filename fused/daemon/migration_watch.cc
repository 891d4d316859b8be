// The thread that ends migrations (migration_watch.h).
#include "fused/daemon/migration_watch.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "oramcore/base/threads.h"

namespace s3oram {
namespace {

constexpr std::chrono::seconds kLookEvery{1};
/// The pause after a failed end; doubled after each further failure.
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

EndOfMigration MigrationWatch::end() const {
  const std::lock_guard lock(end_mutex_);
  return end_;
}

void MigrationWatch::leave_files() {
  files_.end_backups();
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
  if (migration->left == 0 && std::chrono::steady_clock::now() >= next_end_) try_end();
}

void MigrationWatch::try_end() {
  const std::lock_guard lock(files_mutex_);
  if (!may_use_files_) return;
  // The last backup may still be at the source, and copies of its blocks would not be recognized as
  // a backup.
  const auto backed_up = files_.back_up();
  if (!backed_up && backed_up.error() == ECANCELED) return;  // the next mount ends the migration
  if (!backed_up) return later(not_backed_up(backed_up.error()));
  if (const Status ended = volume_.end_migration(); !ended)
    return later({fmt::format("{}; it will be retried", ended.error().message)});
  spdlog::info(
      "all blocks have moved: the servers from which they came are no longer used. Delete their "
      "stores, and write a new recovery file (s3oramfs backup --keys)");
  pause_ = {};
  begun_ = false;
  const std::lock_guard telling(end_mutex_);
  end_ = {};
}

EndOfMigration MigrationWatch::not_backed_up(int error) const {
  switch (error) {
    case EROFS:
      return {"the vault is mounted with -o ro: mount it again without that option", false};
    case EUCLEAN:
      return {fmt::format("vault.db is damaged ({}): unmount, and run s3oramfs restore --force",
                          files_.status().first_damage),
              false};
    case ENOSPC:
      return {
          "the names must be backed up first, but there is no room: delete files, or make room "
          "at the servers; it will be retried"};
    default:
      return {
          fmt::format("the names must be backed up first, but that fails: {}; it will be retried",
                      std::strerror(error))};
  }
}

/// Notes a failure, and sets the time of the next try. Pauses grow, because each try commits.
void MigrationWatch::later(EndOfMigration end) {
  pause_ = std::clamp(2 * pause_, kRetryAfter, kLongestPause);
  next_end_ = std::chrono::steady_clock::now() + pause_;
  end.failure = "all blocks have moved, but the migration does not end: " + end.failure;
  const std::lock_guard lock(end_mutex_);
  if (end.failure != end_.failure) spdlog::warn("{}", end.failure);
  end_ = std::move(end);
}

}  // namespace s3oram
