// Measures how long a disk has been working on its requests, because a disk that hangs neither
// fails nor answers.
#pragma once

#include <chrono>
#include <mutex>
#include <set>

namespace s3oram {

/// Thread-safe.
class DiskWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// An operation that is under way as long as this object exists.
  class Operation {
   public:
    explicit Operation(DiskWatch& watch) : watch_(watch), begun_(watch.begin()) {}
    ~Operation() { watch_.end(begun_); }
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

   private:
    DiskWatch& watch_;
    const std::multiset<Clock::time_point>::iterator begun_;
  };

  /// Returns how long the oldest operation has been under way; zero if there is none.
  Clock::duration busy_for() const {
    const std::lock_guard lock(mutex_);
    return under_way_.empty() ? Clock::duration::zero() : Clock::now() - *under_way_.begin();
  }

 private:
  std::multiset<Clock::time_point>::iterator begin() {
    const std::lock_guard lock(mutex_);
    return under_way_.insert(Clock::now());
  }
  void end(std::multiset<Clock::time_point>::iterator begun) {
    const std::lock_guard lock(mutex_);
    under_way_.erase(begun);
  }

  mutable std::mutex mutex_;  // guards under_way_; no other lock is taken under it
  std::multiset<Clock::time_point> under_way_;  // when each was begun
};

}  // namespace s3oram
