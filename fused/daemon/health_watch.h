// Watches a mount's health, so that the log says when a problem begins and ends even if no one asks
// for the status.
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

/// Finds what has changed between two looks.
class HealthLog {
 public:
  /// Lines for the log: the texts of new problems, and the causes of those that are over.
  struct Changes {
    std::vector<std::string> begun, ended;
  };
  Changes changes(const std::vector<Problem>& now);
  bool healthy() const { return known_.empty(); }

 private:
  std::map<std::string, bool> known_;  // by cause: whether the latest check found it
};

/// A thread that checks the health every second and logs changes.
class HealthWatch {
 public:
  /// `look` is called on the thread; it may block for a moment.
  explicit HealthWatch(std::function<std::vector<Problem>()> look);
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;
  /// Waits for a check that is under way.
  ~HealthWatch();

 private:
  void run();
  void log(const HealthLog::Changes& changes) const;

  const std::function<std::vector<Problem>()> look_;
  HealthLog known_;   // used only by the thread
  std::mutex mutex_;  // guards stopping_
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace s3oram
