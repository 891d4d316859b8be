// Unmounts a mount that has not been used for some time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "fused/cache/timing.h"
#include "oramcore/base/error.h"

namespace s3oram {

class IdleWatch {
 public:
  struct Actions {
    std::function<Timing::Time()> last_use;
    /// Returns false if a process still has files open in the mount, or its working directory.
    std::function<bool()> unmount;
  };

  /// Starts a thread that unmounts after `limit` without use. `timing` outlives this object.
  /// Errors: failed.
  Status start(std::chrono::milliseconds limit, Actions actions, Timing& timing = system_timing());
  /// Waits for an attempt that is under way.
  ~IdleWatch();

 private:
  void run(std::chrono::milliseconds limit, const Actions& actions, Timing& timing);

  std::mutex mutex_;  // guards stopping_
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace s3oram
