// The few asynchronous primitives that every party uses, based on Boost.Asio coroutines. A party
// (the client, or one server) runs its protocol on one executor without locks; heavy work is
// offloaded to a pool. Time is passed in as a Clock, so that a simulator can control it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace s3oram {

namespace asio = boost::asio;
using Executor = asio::any_io_executor;
template <class T>
using Task = asio::awaitable<T>;
using Duration = std::chrono::nanoseconds;

/// Wakes coroutines. One executor; not thread-safe. Destroying an Event destroys the waiting
/// coroutines, in a later turn of the executor.
class Event {
 public:
  /// Suspends until the next notify_all(). Re-check the condition afterwards.
  Task<void> wait() {
    co_await asio::async_initiate<decltype(asio::use_awaitable), void()>(
        [this](auto handler) {
          auto shared = std::make_shared<decltype(handler)>(std::move(handler));
          auto executor = asio::get_associated_executor(*shared);
          waiters_.push_back(
              [shared, executor] { asio::post(executor, [shared] { std::move (*shared)(); }); });
        },
        asio::use_awaitable);
  }
  void notify_all() {
    for (auto& wake : std::exchange(waiters_, {})) wake();
  }
  bool has_waiters() const { return !waiters_.empty(); }

 private:
  std::vector<std::function<void()>> waiters_;
};

/// The time, passed in. now() counts from an arbitrary start and never goes backwards.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Duration now() const = 0;
  /// Calls `then` on the party's executor once `after` has passed.
  virtual void call_after(Duration after, std::function<void()> then) = 0;

  Task<void> sleep(Duration after);
};

/// The system's monotonic clock.
class SystemClock final : public Clock {
 public:
  explicit SystemClock(Executor executor) : executor_(std::move(executor)) {}
  Duration now() const override;
  void call_after(Duration after, std::function<void()> then) override;

 private:
  Executor executor_;
};

/// Runs `work()` on `pool` and resumes the coroutine on its own executor with the result.
template <class Work, class R = std::invoke_result_t<Work>>
Task<R> offload(Executor pool, Work work) {
  if constexpr (std::is_void_v<R>) {
    co_await asio::async_initiate<decltype(asio::use_awaitable), void()>(
        [&](auto handler) {
          asio::post(pool, [work = std::move(work), handler = std::move(handler)]() mutable {
            work();
            auto executor = asio::get_associated_executor(handler);
            asio::post(executor,
                       [handler = std::move(handler)]() mutable { std::move(handler)(); });
          });
        },
        asio::use_awaitable);
  } else {
    std::optional<R> result;
    co_await offload(pool, [&] { result.emplace(work()); });
    co_return std::move(*result);
  }
}

/// Runs `work()`, which draws or combines `bytes` bytes: directly on the caller's thread if that
/// takes less time than waking another one, otherwise on `pool`.
template <class Work, class R = std::invoke_result_t<Work>>
Task<R> offload(Executor pool, std::size_t bytes, Work work) {
  constexpr std::size_t kShort = 1 << 15;  // 5 to 30 us
  if (bytes <= kShort) co_return work();
  co_return co_await offload(std::move(pool), std::move(work));
}

// In all coroutines here, a temporary of an aggregate type with a destructor must not appear in a
// co_await expression, nor a co_await in a ?: (g++ 12 destroys the results twice).

/// Starts `task` on `executor`, immediately if the caller runs on it. An exception that leaves the
/// task ends the process, because it is a bug.
void spawn(Executor executor, Task<void> task);

/// Runs all tasks concurrently on the caller's executor and returns their results in order. If the
/// tasks are destroyed before they have ended, so is the caller.
template <class T>
Task<std::vector<T>> all(std::vector<Task<T>> tasks) {
  std::vector<std::optional<T>> ended(tasks.size());
  std::size_t left = tasks.size();
  // Only the tasks own the event. A coroutine that owned the event on which it waits would own
  // itself.
  auto owned = std::make_shared<Event>();
  Event& done = *owned;
  auto executor = co_await asio::this_coro::executor;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    spawn(executor,
          [](Task<T> task, std::optional<T>& result, std::size_t& running,
             std::shared_ptr<Event> last) -> Task<void> {
            result.emplace(co_await std::move(task));
            if (--running == 0) last->notify_all();
          }(std::move(tasks[i]), ended[i], left, owned));
  }
  owned.reset();
  while (left > 0) co_await done.wait();
  std::vector<T> results;
  for (auto& result : ended) results.push_back(std::move(*result));
  co_return results;
}

}  // namespace s3oram
