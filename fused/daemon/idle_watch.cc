// Sleeps until the mount may have been idle for long enough.
#include "fused/daemon/idle_watch.h"

#include <algorithm>
#include <utility>

#include "oramcore/base/threads.h"

namespace s3oram {

Status IdleWatch::start(std::chrono::milliseconds limit, Actions actions, Timing& timing) {
  auto thread = start_thread(
      "unmounting an idle mount",
      [this, limit, &timing, actions = std::move(actions)] { run(limit, actions, timing); });
  if (!thread) return fail(std::move(thread).error());
  thread_ = std::move(*thread);
  return {};
}

IdleWatch::~IdleWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void IdleWatch::run(std::chrono::milliseconds limit, const Actions& actions, Timing& timing) {
  // An open file is a use that causes no requests. When the file is closed, the idle time starts
  // again, so the mount is checked only rarely before that.
  constexpr std::chrono::milliseconds kMostBusy = std::chrono::minutes(1);
  Timing::Time busy{};
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto due = std::max(actions.last_use() + limit, busy);
    if (timing.now() < due) {
      timing.wait(lock, stopped_, due);
      continue;
    }
    lock.unlock();
    const bool unmounted = actions.unmount();
    lock.lock();
    if (unmounted) return;
    busy = timing.now() + std::min(limit, kMostBusy);
  }
}

}  // namespace s3oram
