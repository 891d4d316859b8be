// Decides which block is written next: first those that an operation waits for, then the others.
// Blocks whose write failed are queued again after a pause.
#pragma once

#include "fused/cache/node.h"

namespace s3oram {

/// Used under the mutex of the file system.
class FlushQueue {
 public:
  using Handle = std::shared_ptr<CachedBlock>;

  /// Puts the block into the queue if it is dirty. If a write of it is in flight, it is written
  /// again after that one. A block whose pause is not over waits for retry().
  void want(const Handle& block, bool awaited, Timing::Time now);
  struct Next {
    Handle block;
    bool awaited = false;
  };
  /// Takes the next block that still has to be written; std::nullopt if there is none.
  std::optional<Next> take();
  /// Keeps a block whose write failed.
  void failed(const Handle& block) { failed_.push_back(block); }
  /// Queues the failed blocks whose pause is over.
  void retry(Timing::Time now);

  bool has_failed() const { return !failed_.empty(); }
  bool has_awaited() const { return !awaited_.empty(); }
  bool empty() const { return awaited_.empty() && queue_.empty(); }
  std::size_t size() const { return awaited_.size() + queue_.size(); }

 private:
  using List = std::list<Handle>;

  List awaited_, queue_;
  List failed_;  // blocks to be tried again
};

}  // namespace s3oram
