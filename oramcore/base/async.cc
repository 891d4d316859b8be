// Clocks and the start of coroutines, based on Boost.Asio.
#include "oramcore/base/async.h"

#include <exception>

namespace s3oram {

Task<void> Clock::sleep(Duration after) {
  co_await asio::async_initiate<decltype(asio::use_awaitable), void()>(
      [&](auto handler) {
        auto shared = std::make_shared<decltype(handler)>(std::move(handler));
        call_after(after, [shared] { std::move (*shared)(); });
      },
      asio::use_awaitable);
}

Duration SystemClock::now() const { return std::chrono::steady_clock::now().time_since_epoch(); }

void SystemClock::call_after(Duration after, std::function<void()> then) {
  auto timer = std::make_shared<asio::steady_timer>(executor_, after);
  timer->async_wait([timer, then = std::move(then)](const boost::system::error_code& error) {
    if (!error) then();
  });
}

void spawn(Executor executor, Task<void> task) {
  asio::co_spawn(executor, std::move(task), [](std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
  });
}

}  // namespace s3oram
