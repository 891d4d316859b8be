// Tests that caches shrink while memory is short, and grow again.
#include "oramcore/base/memory_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace s3oram {
namespace {

constexpr std::uint64_t kMebi = 1 << 20;
using Time = CacheShift::Time;

MemoryRoom with(std::uint64_t left) { return {512 * kMebi, left * kMebi}; }

TEST(CacheShift, HalvesWhileMemoryIsShort) {
  CacheShift caches;
  EXPECT_EQ(caches.step(with(100), Time{}), 0u);
  for (unsigned shift = 1; shift <= CacheShift::kMost; ++shift)
    EXPECT_EQ(caches.step(with(63), Time{}), shift);
  EXPECT_EQ(caches.step(with(0), Time{}), CacheShift::kMost);
}

TEST(CacheShift, GrowsWhereThereWasEnoughForAWhile) {
  CacheShift caches;
  caches.step(with(10), Time{});
  ASSERT_EQ(caches.step(with(10), Time{}), 2u);
  EXPECT_EQ(caches.step(with(200), Time{}), 2u) << "at once";
  EXPECT_EQ(caches.step(with(100), Time{} + 2 * CacheShift::kCalm), 2u) << "between the two";
  EXPECT_EQ(caches.step(with(200), Time{} + 2 * CacheShift::kCalm), 1u);
  EXPECT_EQ(caches.step(with(200), Time{} + 2 * CacheShift::kCalm), 1u) << "step by step";
  EXPECT_EQ(caches.step(with(200), Time{} + 3 * CacheShift::kCalm), 0u);
  EXPECT_EQ(caches.step(with(200), Time{} + 9 * CacheShift::kCalm), 0u);
}

TEST(MemoryWatch, CallsWhenTheShiftChanges) {
  std::atomic<std::uint64_t> left = 10;
  std::promise<unsigned> first;
  std::atomic<unsigned> calls = 0;
  const auto watch = MemoryWatch::start(
      [&](unsigned shift) {
        if (calls++ == 0) first.set_value(shift);
      },
      [&] { return with(left); });
  ASSERT_TRUE(watch) << watch.error().message;
  EXPECT_EQ(first.get_future().get(), 1u);
}

}  // namespace
}  // namespace s3oram
