// Makes backups of the names: on a thread of its own, when one is due or wanted, and on request.
#pragma once

#include <chrono>
#include <condition_variable>
#include <string>
#include <thread>

#include "fused/backup/backups.h"
#include "fused/files/commit_queue.h"
#include "fused/files/files_state.h"
#include "oramcore/base/log_limit.h"

namespace s3oram {

class BackupThread {
 public:
  BackupThread(FilesState& state, CommitQueue& commits, Backups& backups)
      : state_(state), commits_(commits), backups_(backups) {}

  /// Starts the thread, unless the options say that backups are made only on request.
  Status start();
  /// Waits for the thread, which ends when FilesState::stopping is true. Call it without the lock,
  /// and before the destructor.
  void join();

  /// Makes a backup now. `last`: the file system is ending, and everything else in it has ended.
  /// Errors: those of Backups::make().
  PosixStatus back_up(Lock& lock, bool last = false);
  /// Makes a back_up() that is under way fail soon with ECANCELED, and also later ones that are not
  /// `last`.
  void end_backups();
  /// Asks the thread for a backup. Does not wait.
  void want();
  /// Makes the thread check again when the next backup is due.
  void look_again() { wakes_.notify_all(); }

  /// Returns why the last backup failed; empty if it did not.
  const std::string& failure() const { return failure_; }
  Timing::Time failing_since() const { return failing_since_; }

 private:
  void run();

  FilesState& state_;
  CommitQueue& commits_;
  Backups& backups_;
  bool wanted_ = false;
  std::string failure_;
  Timing::Time failing_since_;
  LogLimit told_;
  std::condition_variable wakes_;
  std::thread thread_;
};

}  // namespace s3oram
