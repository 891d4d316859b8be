// Makes many writes durable with one fdatasync: whoever asks waits for a sync that starts later.
#pragma once

#include "oramcore/base/async.h"
#include "oramcore/base/error.h"
#include "serverd/frame_store.h"

namespace s3oram {

/// One executor; not thread-safe. A failed sync is never tried again: from then on every call
/// fails, and the server must be restarted to find out what its disk holds.
class GroupSync {
 public:
  GroupSync(Executor executor, Executor pool, FrameStore& store)
      : executor_(std::move(executor)), pool_(std::move(pool)), store_(store) {}

  Task<Status> sync() {
    const std::uint64_t mine = ++asked_;
    if (!running_) spawn(executor_, run());
    while (done_ < mine && !failure_) co_await finished_.wait();
    if (failure_) co_return fail(*failure_);
    co_return Status{};
  }

 private:
  Task<void> run() {
    running_ = true;
    while (done_ < asked_ && !failure_) {
      const std::uint64_t covered = asked_;
      const Status status = co_await offload(pool_, [this] { return store_.sync(); });
      if (status)
        done_ = covered;
      else
        failure_ = status.error();
      finished_.notify_all();
    }
    running_ = false;
  }

  Executor executor_;
  Executor pool_;
  FrameStore& store_;
  std::uint64_t asked_ = 0, done_ = 0;
  bool running_ = false;
  std::optional<Error> failure_;
  Event finished_;
};

}  // namespace s3oram
