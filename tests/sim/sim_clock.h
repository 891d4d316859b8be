// Time that passes as fast as the process allows, and clocks that disagree about it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>

#include "oramcore/base/async.h"

namespace s3oram::test {

/// The true time. It stands still until advance() is called.
class FastClock final : public Clock {
 public:
  explicit FastClock(asio::io_context& context) : context_(context) {}
  Duration now() const override { return now_; }
  void call_after(Duration after, std::function<void()> then) override {
    timers_.emplace(now_ + after, std::move(then));
  }
  /// Advances to the next timer. Returns false if there is none.
  bool advance();

 private:
  asio::io_context& context_;
  Duration now_{0};
  std::multimap<Duration, std::function<void()>> timers_;
};

/// One party's view of a true time. It runs too fast or too slow, and jumps ahead like the clock of
/// a machine that slept. Its timers follow its own view.
class SimClock final : public Clock {
 public:
  /// The true clock must outlive all timers of this one.
  explicit SimClock(Clock& truth) : truth_(truth) {}
  Duration now() const override;
  void call_after(Duration after, std::function<void()> then) override;

  /// Sets the seconds of this clock in a true second, from now on; > 0.
  void set_rate(double rate);
  void jump(Duration ahead);

 private:
  void wake();
  void call_due();

  Clock& truth_;
  double rate_ = 1;
  Duration base_{0}, true_base_{0};  // readings of this clock and the true one at the same moment
  std::multimap<Duration, std::function<void()>> timers_;
  std::uint64_t wakes_ = 0;  // the newest wake-up call
};

}  // namespace s3oram::test
