// Clocks and waiting, passed in so that a simulator can own both.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <mutex>

namespace s3oram {

using Lock = std::unique_lock<std::mutex>;

/// May be used on any thread.
class Timing {
 public:
  using Time = std::chrono::steady_clock::time_point;

  virtual ~Timing() = default;
  /// Returns the time of a monotonic clock.
  virtual Time now() = 0;
  /// Returns nanoseconds since 1970, for the times of files.
  virtual std::int64_t wall_clock() = 0;
  /// Releases the lock until `changed` is notified or `until` has come. May return earlier, so
  /// callers must check their condition again.
  virtual void wait(Lock& lock, std::condition_variable& changed, Time until) = 0;
};

/// Returns nanoseconds since 1970, or the nearest time that fits (in the years 1677 to 2262).
std::int64_t to_ns(const timespec& time);

/// The system's clocks; waiting blocks the thread.
Timing& system_timing();

}  // namespace s3oram
