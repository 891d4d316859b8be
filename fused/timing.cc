#include "fused/timing.h"

namespace s3oram {
namespace {

class SystemTiming final : public Timing {
 public:
  Time now() override { return std::chrono::steady_clock::now(); }
  std::int64_t wall_clock() override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
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
