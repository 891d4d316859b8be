// Computes the deadlines of waits for the device.
#include "fused/cache/device_wait.h"

#include <algorithm>
#include <utility>

namespace s3oram {
namespace {

constexpr std::chrono::seconds kMoment{2}, kHurry{60};

}  // namespace

bool DeviceWait::until_since(Timing::Time start, Lock& lock, const std::function<bool()>& ready) {
  const auto begun = timing_.now();
  while (!ready()) {
    notice_steps();
    const auto now = timing_.now();
    auto limit = std::max(start, last_progress_) + deadline_;
    if (hurried_ && now < *hurried_ + kHurry)
      limit = std::max(last_progress_ + deadline_, std::max(begun, *hurried_) + kMoment);
    if (now >= limit) return false;
    timing_.wait(lock, changed_, std::min(limit, now + retry_));
    meanwhile_();
  }
  return true;
}

Timing::Time DeviceWait::counts_from(std::optional<Timing::Time>& asked) {
  notice_steps();
  const auto now = timing_.now();
  if (!asked || now >= std::max(*asked, last_progress_) + deadline_ + kMoment) asked = now;
  const auto left = std::min<Timing::Time::duration>(kMoment, deadline_);
  return std::max(*asked, now + left - deadline_);
}

/// Counts steps of accesses that have not ended as progress.
void DeviceWait::notice_steps() {
  const std::uint64_t steps = steps_();
  if (std::exchange(seen_steps_, steps) != steps) last_progress_ = timing_.now();
}

void DeviceWait::hurry() {
  notice_steps();
  hurried_ = timing_.now();
  changed_.notify_all();
}

void DeviceWait::wake(bool progress) {
  if (progress) last_progress_ = timing_.now();
  changed_.notify_all();
}

}  // namespace s3oram
