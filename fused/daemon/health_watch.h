// Looks after a mount's health while it is mounted, so that the log says what is wrong, and that it
// is over, although nobody asks for the status.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fused/daemon/health.h"

namespace s3oram {

/// What has changed between two looks.
class HealthLog {
 public:
  /// Lines for the log: the texts of problems that are new, and the causes of those that are over.
  struct Changes {
    std::vector<std::string> begun, ended;
  };
  Changes changes(const std::vector<Problem>& now);
  bool healthy() const { return known_.empty(); }

 private:
  std::map<std::string, bool> known_;  // causes; whether the present look has them too
};

/// A thread that looks every second, and logs.
class HealthWatch {
 public:
  /// `look` is called on the thread; it may block for a moment.
  explicit HealthWatch(std::function<std::vector<Problem>()> look);
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;
  /// Waits for a look that is under way.
  ~HealthWatch();

 private:
  void run();
  void log(const HealthLog::Changes& changes) const;

  const std::function<std::vector<Problem>()> look_;
  HealthLog known_;   // the thread's own
  std::mutex mutex_;  // guards stopping_
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace s3oram
