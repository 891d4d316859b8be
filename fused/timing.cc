#include "fused/timing.h"

#include <time.h>

namespace s3oram {
namespace {

class SystemTiming final : public Timing {
 public:
  Time now() override { return std::chrono::steady_clock::now(); }
  /// The kernel's clock of file times, and not a finer one: some of our files' times are its own,
  /// and what was changed later must not seem older.
  std::int64_t wall_clock() override {
    timespec now{};
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }
  void wait(Lock& lock, std::condition_variable& changed, Time until) override {
    changed.wait_until(lock, until);
  }
};

}  // namespace

Timing& system_timing() {
  static SystemTiming timing;
  return timing;
}

}  // namespace s3oram
