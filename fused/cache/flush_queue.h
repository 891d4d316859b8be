// Which blocks are written next: those that somebody waits for, then the others; and those whose
// write failed, after a pause.
#pragma once

#include "fused/cache/node.h"

namespace s3oram {

/// Under the mutex of the file system.
class FlushQueue {
 public:
  using Handle = std::shared_ptr<CachedBlock>;

  /// Puts the block into the queue if it is dirty. If a write is in flight, it is written again
  /// after that. A block whose pause is not over waits for retry().
  void want(const Handle& block, bool awaited, Timing::Time now);
  struct Next {
    Handle block;
    bool awaited = false;
  };
  /// Takes the next block that is still to be written; none if there is none.
  std::optional<Next> take();
  /// Keeps a block whose write failed.
  void failed(const Handle& block) { failed_.push_back(block); }
  /// Wants the failed blocks whose pause is over.
  void retry(Timing::Time now);

  bool has_failed() const { return !failed_.empty(); }
  bool has_awaited() const { return !awaited_.empty(); }
  bool empty() const { return awaited_.empty() && queue_.empty(); }
  std::size_t size() const { return awaited_.size() + queue_.size(); }

 private:
  using List = std::list<Handle>;

  List awaited_, queue_;
  List failed_;  // to be tried again
};

}  // namespace s3oram
