// Waits until a backup is due, makes it, and retries one that failed.
#include "fused/files/backup_thread.h"

#include <spdlog/spdlog.h>

#include <cstring>
#include <utility>

#include "oramcore/base/threads.h"

namespace s3oram {

Status BackupThread::start() {
  if (state_.options.back_up_every.count() == 0 || state_.options.read_only) return {};
  S3O_ASSIGN(thread_, start_thread("backups of the names", [this] { run(); }));
  state_.cache.want_backup = [this] { want(); };
  return {};
}

void BackupThread::join() {
  wakes_.notify_all();
  if (thread_.joinable()) thread_.join();
}

PosixStatus BackupThread::back_up(Lock& lock, bool last) {
  return backups_.make(
      lock, [this](Lock& held) { return commits_.commit(held); },
      [this, last] { return (state_.stopping || state_.ends_backups) && !last; });
}

void BackupThread::end_backups() {
  state_.ends_backups = true;
  backups_.interrupt();
}

void BackupThread::want() {
  if (std::exchange(wanted_, true)) return;
  wakes_.notify_all();
}

void BackupThread::run() {
  Lock lock(state_.mutex);
  Timing& timing = state_.timing;
  const auto every = state_.options.back_up_every;
  while (!state_.stopping) {
    const auto due = backups_.due(every);
    if (!wanted_ && timing.now() < due) {
      timing.wait(lock, wakes_, due);
      continue;
    }
    const auto outcome = back_up(lock);
    // Keep trying after a failure, because the next backup may be due much later.
    wanted_ = !outcome && outcome.error() != EUCLEAN;
    if (outcome) failure_.clear();
    if (outcome || state_.stopping) continue;
    // While rows are damaged, the last backup is kept, and status reports the damage.
    if (outcome.error() == EUCLEAN) {
      timing.wait(lock, wakes_, timing.now() + every);
      continue;
    }
    if (failure_.empty()) failing_since_ = timing.now();
    failure_ = std::strerror(outcome.error());
    if (told_.pass(timing.now().time_since_epoch()))
      spdlog::warn("a backup of the names could not be made ({}); it will be retried{}",
                   std::strerror(outcome.error()), told_.more());
    timing.wait(lock, wakes_, timing.now() + state_.options.cache.retry);
  }
}

}  // namespace s3oram
