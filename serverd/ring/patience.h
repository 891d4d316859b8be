// Distinguishes disk trouble that passes from places on the disk that stay unreadable.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>

#include "oramcore/base/async.h"

namespace s3oram::ring {

/// A bus reset, a path failover or the restart of a file server causes read errors for a while: the
/// data is sound, and must not be given up. A bad sector stays bad, and must not stop a volume
/// forever. So data that cannot be read counts as lost only once all attempts have failed for
/// kPatience. Thread-safe.
class Patience {
 public:
  /// An iSCSI session may take 120 s to come back.
  static constexpr Duration kPatience = std::chrono::minutes(3);
  /// The client retries every second. After a longer pause, a failure counts as new trouble.
  static constexpr Duration kPause = std::chrono::seconds(30);

  explicit Patience(Clock& clock) : clock_(clock) {}

  /// Records a failure to read this place. Returns whether to keep trying.
  bool waits_for(std::uint64_t place) {
    std::lock_guard lock(mutex_);
    const Duration now = clock_.now();
    const auto [found, is_new] = failures_.try_emplace(place, Failures{now, now});
    Failures& failures = found->second;
    if (now - failures.last > kPause) failures.first = now;
    failures.last = now;
    return now - failures.first < kPatience;
  }
  /// Records that the place was read.
  void end(std::uint64_t place) {
    std::lock_guard lock(mutex_);
    failures_.erase(place);
  }

 private:
  struct Failures {
    Duration first{}, last{};
  };
  Clock& clock_;
  std::mutex mutex_;  // guards failures_; no other lock is taken under it
  std::map<std::uint64_t, Failures> failures_;
};

}  // namespace s3oram::ring
