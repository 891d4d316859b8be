// Waits for the device for as long as it makes progress.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "fused/cache/timing.h"

namespace s3oram {

/// All methods are called under the one mutex of the file system, which the waits release.
class DeviceWait {
 public:
  /// A wait gives up when the device has made no progress for `deadline`: it has completed nothing,
  /// and `steps`, which is BlockDevice::steps(), has not changed. A wait checks its condition at
  /// least every `retry`, and calls `meanwhile` before each check but the first.
  DeviceWait(Timing& timing, std::chrono::milliseconds deadline, std::chrono::milliseconds retry,
             std::function<std::uint64_t()> steps, std::function<void()> meanwhile)
      : timing_(timing),
        deadline_(deadline),
        retry_(retry),
        steps_(std::move(steps)),
        meanwhile_(std::move(meanwhile)),
        last_progress_(timing.now()) {}

  /// Waits until `ready()` is true. Returns false if the device made no progress for the deadline.
  bool until(Lock& lock, const std::function<bool()>& ready) {
    return until_since(timing_.now(), lock, ready);
  }
  /// Does the same for a request that was sent to the device at `start`.
  bool until_since(Timing::Time start, Lock& lock, const std::function<bool()>& ready);
  /// Returns the time from which the deadline of a request that begins now counts, if the first
  /// request for the same data began at `asked` (std::nullopt if this is the first one, whenever
  /// the device itself was asked). After an error the kernel immediately asks again, for a single
  /// page; such a request gets only a moment more. A later request gets a full deadline. It and the
  /// first one update `asked`.
  Timing::Time counts_from(std::optional<Timing::Time>& asked);

  /// For the next minute, makes every wait for a device that has made no progress for the deadline
  /// end after a moment.
  void hurry();
  /// Wakes all waiting threads. `progress`: the device has completed something.
  void wake(bool progress);

 private:
  void notice_steps();

  Timing& timing_;
  const std::chrono::milliseconds deadline_, retry_;
  const std::function<std::uint64_t()> steps_;
  const std::function<void()> meanwhile_;
  std::condition_variable changed_;
  std::uint64_t seen_steps_ = 0;
  Timing::Time last_progress_;
  std::optional<Timing::Time> hurried_;  // when hurry() was called
};

}  // namespace s3oram
