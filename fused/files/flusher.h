// Decides when changes become durable: at barriers, when they take too much memory, and with every
// beat of the ticker, every few seconds.
#pragma once

#include <condition_variable>
#include <functional>
#include <thread>
#include <vector>

#include "fused/files/commit_queue.h"
#include "fused/files/directories.h"
#include "fused/files/files_state.h"
#include "fused/files/inodes.h"

namespace s3oram {

class Flusher {
 public:
  Flusher(FilesState& state, CommitQueue& commits, Inodes& inodes, Directories& directories)
      : state_(state),
        commits_(commits),
        inodes_(inodes),
        directories_(directories),
        durable_at_(state.timing.now()) {}

  /// Begins to count the time to the first beat. Starts a thread that calls beat(), if the options
  /// ask for it.
  Status start();
  /// Waits for the thread, which ends when FilesState::stopping is true. Call it without the lock,
  /// and before the destructor.
  void join();

  /// Waits until another change may begin, so that the changes in memory stay bounded. Errors:
  /// EROFS.
  PosixStatus admit(Lock& lock);
  /// Waits until everything written to these nodes so far is acknowledged. The next commit then
  /// contains it.
  PosixStatus flush(Lock& lock, const std::vector<Inodes::NodePtr>& nodes);
  /// Flushes all nodes, and commits.
  PosixStatus sync_all(Lock& lock);
  /// Called before a file is emptied. A program may empty and rewrite a file faster than its
  /// contents become durable, so once every `commit_every` the current content is flushed before
  /// the file is emptied again.
  void keep_one_content(Lock& lock, const Inodes::NodePtr& node);
  /// Settles the new content of the nodes that `which` selects (DataCache::settle()).
  void settle(const std::function<bool(const Node&)>& which);

  /// Commits what is due, retries what failed, and waits for both. Returns when the next beat is
  /// due.
  Timing::Time beat(Lock& lock);

  /// Returns a time before which every change is durable.
  Timing::Time durable_at() const { return durable_at_; }

 private:
  void run();
  void wake();
  void tick(Lock& lock);
  void flush_and_commit(Lock& lock, Timing::Time begun);
  void empty_packs();

  FilesState& state_;
  CommitQueue& commits_;
  Inodes& inodes_;
  Directories& directories_;
  Timing::Time durable_at_;
  bool failing_ = false;
  bool kick_ = false;  // the next beat commits, whether or not it is due
  Timing::Time next_tick_;
  std::condition_variable wakes_;
  std::thread thread_;
};

}  // namespace s3oram
