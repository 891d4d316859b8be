// Commits a file system: collects the content of each commit, and applies its outcome.
#pragma once

#include <functional>

#include "fused/backup/backups.h"
#include "fused/files/files_state.h"
#include "fused/files/inode_allocator.h"
#include "oramcore/base/log_limit.h"

namespace s3oram {

class CommitQueue {
 public:
  CommitQueue(FilesState& state, InodeAllocator& numbers, Backups& backups)
      : state_(state), numbers_(numbers), backups_(backups) {}

  /// Asks the device for a commit, and waits for it. Errors: EIO, ENOSPC.
  PosixStatus commit(Lock& lock);
  /// Returns how many commits were requested and have not ended yet.
  unsigned waiting() const { return waiting_; }

  /// Fixes the content of a commit that begins, and returns its work
  /// (CommitParticipant::snapshot()).
  std::function<Status(Database&)> begin();
  /// Called when that commit has ended. Logs a failure.
  void end(const Status& outcome);

 private:
  FilesState& state_;
  InodeAllocator& numbers_;
  Backups& backups_;
  unsigned waiting_ = 0;
  LogLimit told_;
};

}  // namespace s3oram
