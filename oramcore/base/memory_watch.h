// Makes caches shrink while memory is short, and grow again when it is not.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "oramcore/base/error.h"
#include "oramcore/base/memory_limit.h"

namespace s3oram {

/// Decides how far caches are shrunk: their sizes are shifted to the right by this many bits.
class CacheShift {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr unsigned kMost = 5;
  /// Caches grow only after this time without a shortage, because a shortage may recur.
  static constexpr std::chrono::seconds kCalm{10};

  /// Returns the shift for the memory that is left at `now`. Call it with times that do not go
  /// back.
  unsigned step(const MemoryRoom& room, Time now);

 private:
  unsigned shift_ = 0;
  std::optional<Time> changed_;
};

class MemoryWatch {
 public:
  /// Calls `changed(shift)` on a separate thread whenever the shift changes, and repeatedly while
  /// memory is short. `room` returns the memory left. Errors: failed (the thread cannot be
  /// started).
  static Result<std::unique_ptr<MemoryWatch>> start(
      std::function<void(unsigned shift)> changed,
      std::function<MemoryRoom()> room = [] { return memory_room(); });
  /// Waits for a call that is under way.
  ~MemoryWatch();

 private:
  MemoryWatch() = default;
  void run();

  std::function<void(unsigned)> changed_;
  std::function<MemoryRoom()> room_;
  std::mutex mutex_;  // guards ending_
  std::condition_variable ends_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace s3oram
