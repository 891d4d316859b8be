// The system's clocks, and the clock with which the kernel stamps file changes.
#include "fused/cache/timing.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <limits>

namespace s3oram {
namespace {

class SystemTiming final : public Timing {
 public:
  Time now() override { return std::chrono::steady_clock::now(); }
  /// Reads the kernel's clock of file changes from a file in memory, because there is no system
  /// call for it. Some of our files' times come from the kernel, and a later change must not seem
  /// older. The system's clock is ahead of the kernel's, and the coarse clock may be behind it.
  std::int64_t wall_clock() override {
    struct stat found {};
    if (file_ >= 0 && ::futimens(file_, nullptr) == 0 && ::fstat(file_, &found) == 0)
      return to_ns(found.st_ctim);
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return to_ns(now);
  }
  void wait(Lock& lock, std::condition_variable& changed, Time until) override {
    changed.wait_until(lock, until);
  }

 private:
  const int file_ = ::memfd_create("clock of files", MFD_CLOEXEC);  // never closed
};

}  // namespace

std::int64_t to_ns(const timespec& time) {
  constexpr std::int64_t kEach = 1'000'000'000;
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max() / kEach - 1;
  const std::int64_t second = std::clamp<std::int64_t>(time.tv_sec, -kLast, kLast);
  return second * kEach + (second == time.tv_sec ? time.tv_nsec : 0);
}

Timing& system_timing() {
  static SystemTiming timing;
  return timing;
}

}  // namespace s3oram
