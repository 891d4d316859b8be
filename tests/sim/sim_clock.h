// Time that passes as fast as the process has nothing else to do, and clocks that disagree on it.
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
  /// Moves on to the next timer; false if there is none.
  bool advance();

 private:
  asio::io_context& context_;
  Duration now_{0};
  std::multimap<Duration, std::function<void()>> timers_;
};

/// One party's view of a true time: it runs too fast or too slow, and jumps ahead, as the clock of
/// a machine does that slept. Its timers follow its own view.
class SimClock final : public Clock {
 public:
  /// The true clock must outlive all timers of this one.
  explicit SimClock(Clock& truth) : truth_(truth) {}
  Duration now() const override;
  void call_after(Duration after, std::function<void()> then) override;

  /// Seconds of this clock in a true second; > 0. From now on.
  void set_rate(double rate);
  void jump(Duration ahead);

 private:
  void wake();
  void call_due();

  Clock& truth_;
  double rate_ = 1;
  Duration base_{0}, true_base_{0};  // both were "now" once
  std::multimap<Duration, std::function<void()>> timers_;
  std::uint64_t wakes_ = 0;  // the newest wake-up call
};

}  // namespace s3oram::test
