// Waits for the device for as long as it makes progress.
#pragma once

#include <functional>
#include <optional>

#include "fused/cache/timing.h"

namespace s3oram {

/// All methods are called under the one mutex of the file system, which the waits release.
class DeviceWait {
 public:
  /// A wait gives up when the device has made no progress for `deadline`. It checks its condition
  /// at least every `retry`, and calls `meanwhile` before each check but the first.
  DeviceWait(Timing& timing, std::chrono::milliseconds deadline, std::chrono::milliseconds retry,
             std::function<void()> meanwhile)
      : timing_(timing),
        deadline_(deadline),
        retry_(retry),
        meanwhile_(std::move(meanwhile)),
        last_progress_(timing.now()) {}

  /// Waits until `ready()` is true. Returns false if the device made no progress for the deadline.
  bool until(Lock& lock, const std::function<bool()>& ready) {
    return until_since(timing_.now(), lock, ready);
  }
  /// Does the same for a request that was sent to the device at `start`.
  bool until_since(Timing::Time start, Lock& lock, const std::function<bool()>& ready);
  /// Returns the time from which the deadline of a request that begins now counts, if the device
  /// was asked for the same data at `asked`. After an error the kernel immediately asks again, for
  /// a single page; such a request gets only a moment more. A later request gets a full deadline,
  /// and updates `asked`.
  Timing::Time counts_from(Timing::Time& asked) const;

  /// For the next minute, makes every wait for a device that has made no progress for the deadline
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
