// Waiting for the device, as long as it makes progress.
#pragma once

#include <functional>
#include <optional>

#include "fused/cache/timing.h"

namespace s3oram {

/// All methods are called under the one mutex of the file system, which the waits release.
class DeviceWait {
 public:
  /// A wait ends when the device has made no progress for `deadline`. Each wait looks again after
  /// `retry` at the latest, and calls `meanwhile` before.
  DeviceWait(Timing& timing, std::chrono::milliseconds deadline, std::chrono::milliseconds retry,
             std::function<void()> meanwhile)
      : timing_(timing),
        deadline_(deadline),
        retry_(retry),
        meanwhile_(std::move(meanwhile)),
        last_progress_(timing.now()) {}

  /// Waits until `ready()`. Returns false if the device made no progress for the deadline.
  bool until(Lock& lock, const std::function<bool()>& ready) {
    return until_since(timing_.now(), lock, ready);
  }
  /// Waits for something that the device was asked for at `start`.
  bool until_since(Timing::Time start, Lock& lock, const std::function<bool()>& ready);
  /// Returns when the deadline of a request that begins now starts to count, if the device was
  /// asked for the same at `asked`. After an error the kernel asks again at once, for a single
  /// page: that request gets only a moment more. A later request gets a full deadline, and moves
  /// `asked`.
  Timing::Time counts_from(Timing::Time& asked) const;

  /// For the next minute, lets all waits for a device that has made no progress for the deadline
  /// end after a moment.
  void hurry();
  /// Wakes all waiting threads. `progress`: the device has completed something.
  void wake(bool progress);

 private:
  Timing& timing_;
  const std::chrono::milliseconds deadline_, retry_;
  const std::function<void()> meanwhile_;
  std::condition_variable changed_;
  Timing::Time last_progress_;
  std::optional<Timing::Time> hurried_;  // when hurry() was called
};

}  // namespace s3oram
