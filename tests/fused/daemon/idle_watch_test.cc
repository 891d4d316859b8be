// Tests when an idle mount is unmounted, with a clock that advances whenever someone waits.
#include "fused/daemon/idle_watch.h"

#include <gtest/gtest.h>

#include <semaphore>
#include <vector>

namespace s3oram {
namespace {

using namespace std::chrono_literals;
using Times = std::vector<std::chrono::milliseconds>;

class SkippingTiming final : public Timing {
 public:
  Time now() override { return now_; }
  std::int64_t wall_clock() override { return 0; }
  void wait(Lock&, std::condition_variable&, Time until) override { now_ = until; }
  std::chrono::milliseconds passed() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now_ - Time{});
  }

 private:
  Time now_{};
};

/// Returns when the watch tries to unmount, at the latest at the last of `uses`. The mount is used
/// at each of `uses`, and a program has a file open in it before `open_until`.
Times attempts(std::chrono::milliseconds limit, const Times& uses,
               std::chrono::milliseconds open_until) {
  SkippingTiming timing;
  Times tried;
  std::binary_semaphore unmounted{0};
  IdleWatch watch;
  const auto last_use = [&] {
    auto last = 0ms;
    for (const auto use : uses)
      if (use <= timing.passed()) last = std::max(last, use);
    return Timing::Time{} + last;
  };
  const auto unmount = [&] {
    tried.push_back(timing.passed());
    if (timing.passed() < open_until) return false;
    unmounted.release();
    return true;
  };
  EXPECT_TRUE(watch.start(limit, {last_use, unmount}, timing));
  unmounted.acquire();
  return tried;
}

TEST(IdleWatch, UnmountsWhenTheTimeIsOver) { EXPECT_EQ(attempts(10s, {}, 0s), Times{10s}); }

TEST(IdleWatch, BeginsAgainAtEachUse) { EXPECT_EQ(attempts(10s, {4s, 9s, 18s}, 0s), Times{28s}); }

TEST(IdleWatch, LooksAgainWhileAFileIsOpen) {
  EXPECT_EQ(attempts(10s, {3s}, 40s), (Times{13s, 23s, 33s, 43s}));
}

TEST(IdleWatch, WaitsTheWholeTimeAfterTheFileIsClosed) {
  EXPECT_EQ(attempts(10s, {15s}, 15s), (Times{10s, 25s}));
}

TEST(IdleWatch, LooksOnceAMinuteAtMostWhileAFileIsOpenForLong) {
  EXPECT_EQ(attempts(1h, {}, 1h + 90s), (Times{1h, 1h + 60s, 1h + 120s}));
}

TEST(IdleWatch, EndsBeforeTheTimeIsOver) {
  IdleWatch watch;
  const auto never = []() -> bool {
    ADD_FAILURE() << "unmounted too early";
    return true;
  };
  EXPECT_TRUE(watch.start(1h, {[] { return system_timing().now(); }, never}));
}

}  // namespace
}  // namespace s3oram
