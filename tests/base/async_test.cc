// Tests events, groups of coroutines, work on a pool, and the system's clock.
#include "oramcore/base/async.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <string>
#include <thread>

namespace s3oram {
namespace {

class Async : public testing::Test {
 protected:
  /// Runs until nothing is left to do. Returns false if that takes too long.
  bool run() {
    io_.restart();
    io_.run_for(std::chrono::seconds(20));
    return io_.stopped();
  }
  /// Runs everything that can run without waiting. (A coroutine that waits counts as something left
  /// to do.)
  void settle() {
    io_.restart();
    io_.poll();
  }
  asio::io_context io_{1};
};

TEST_F(Async, EventWakesAllWhoWaitOnce) {
  Event event;
  int woken = 0;
  const auto wait_twice = [&]() -> Task<void> {
    co_await event.wait();
    ++woken;
    co_await event.wait();
    ++woken;
  };
  for (int i = 0; i < 3; ++i) spawn(io_.get_executor(), wait_twice());
  settle();
  EXPECT_TRUE(event.has_waiters());
  EXPECT_EQ(woken, 0);
  event.notify_all();
  EXPECT_FALSE(event.has_waiters());
  EXPECT_EQ(woken, 0);  // they run on their executor, not inside notify_all
  settle();
  EXPECT_EQ(woken, 3);
  event.notify_all();
  settle();
  EXPECT_EQ(woken, 6);
  EXPECT_FALSE(event.has_waiters());
}

TEST_F(Async, EventDoesNotRememberANotification) {
  Event event;
  event.notify_all();
  bool woken = false;
  spawn(io_.get_executor(), [](Event& e, bool& flag) -> Task<void> {
    co_await e.wait();
    flag = true;
  }(event, woken));
  settle();
  EXPECT_FALSE(woken);
}

TEST_F(Async, DestroyingAnEventDestroysItsWaiters) {
  auto held = std::make_shared<int>(1);
  auto event = std::make_unique<Event>();
  spawn(io_.get_executor(),
        [](Event& e, std::shared_ptr<int>) -> Task<void> { co_await e.wait(); }(*event, held));
  settle();
  EXPECT_EQ(held.use_count(), 2);
  event.reset();
  settle();  // their executor unwinds them
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(Async, AllRunsTogetherAndKeepsTheOrder) {
  // Each task waits for the next one, so they finish only if all run together, and in reverse
  // order.
  constexpr int kTasks = 5;
  std::vector<Event> events(kTasks + 1);
  std::string finished;
  std::vector<std::string> results;
  const auto task = [&](int i) -> Task<std::string> {
    if (i + 1 < kTasks) co_await events[static_cast<std::size_t>(i) + 1].wait();
    finished += std::to_string(i);
    events[static_cast<std::size_t>(i)].notify_all();
    co_return "result " + std::to_string(i);
  };
  const auto together = [&]() -> Task<void> {
    std::vector<Task<std::string>> tasks;
    for (int i = 0; i < kTasks; ++i) tasks.push_back(task(i));
    results = co_await all(std::move(tasks));
  };
  spawn(io_.get_executor(), together());
  ASSERT_TRUE(run());
  EXPECT_EQ(finished, "43210");
  const std::vector<std::string> expected = {"result 0", "result 1", "result 2", "result 3",
                                             "result 4"};
  EXPECT_EQ(results, expected);
}

TEST_F(Async, WhoWaitsForAllIsDestroyedWithTheTasks) {
  auto held = std::make_shared<int>(1);
  auto event = std::make_unique<Event>();
  const auto task = [](Event& e) -> Task<int> {
    co_await e.wait();
    co_return 1;
  };
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 3; ++i) tasks.push_back(task(*event));
  spawn(io_.get_executor(),
        [](std::vector<Task<int>> waited_for, std::shared_ptr<int>) -> Task<void> {
          co_await all(std::move(waited_for));
        }(std::move(tasks), held));
  settle();
  EXPECT_EQ(held.use_count(), 2);
  event.reset();
  settle();
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(Async, AllOfNothingIsDoneAtOnce) {
  bool done = false;
  const auto together = [&]() -> Task<void> {
    const auto results = co_await all(std::vector<Task<int>>{});
    done = results.empty();
  };
  spawn(io_.get_executor(), together());
  ASSERT_TRUE(run());
  EXPECT_TRUE(done);
}

TEST_F(Async, OffloadWorksOnThePoolAndResumesAtHome) {
  asio::thread_pool pool(2);
  std::thread::id worked, resumed;
  std::unique_ptr<int> result;
  bool nothing_returned = false;
  const auto task = [&]() -> Task<void> {
    result = co_await offload(pool.get_executor(), [&] {
      worked = std::this_thread::get_id();
      return std::make_unique<int>(42);
    });
    resumed = std::this_thread::get_id();
    co_await offload(pool.get_executor(), [&] { nothing_returned = true; });
  };
  spawn(io_.get_executor(), task());
  ASSERT_TRUE(run());
  pool.join();
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, 42);
  EXPECT_TRUE(nothing_returned);
  EXPECT_EQ(resumed, std::this_thread::get_id());
  EXPECT_NE(worked, std::this_thread::get_id());
}

TEST_F(Async, SystemClockMovesOnAndCallsBack) {
  SystemClock clock(io_.get_executor());
  const Duration start = clock.now();
  Duration woken{};
  const auto task = [&]() -> Task<void> {
    co_await clock.sleep(std::chrono::milliseconds(5));
    woken = clock.now();
  };
  spawn(io_.get_executor(), task());
  ASSERT_TRUE(run());
  EXPECT_GE(woken - start, std::chrono::milliseconds(5));
}

}  // namespace
}  // namespace s3oram
