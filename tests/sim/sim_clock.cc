// Runs timers by the true time, and by a party's view of it.
#include "tests/sim/sim_clock.h"

#include <algorithm>
#include <boost/asio/post.hpp>

namespace s3oram::test {

bool FastClock::advance() {
  if (timers_.empty()) return false;
  auto first = timers_.begin();
  now_ = std::max(now_, first->first);
  asio::post(context_, std::move(first->second));
  timers_.erase(first);
  return true;
}

Duration SimClock::now() const {
  const auto passed = static_cast<double>((truth_.now() - true_base_).count());
  return base_ + Duration(static_cast<Duration::rep>(passed * rate_));
}

void SimClock::call_after(Duration after, std::function<void()> then) {
  const auto timer = timers_.emplace(now() + after, std::move(then));
  if (timer == timers_.begin()) wake();
}

// Asks the true clock for a call when the first timer is due. Only the newest such call counts.
void SimClock::wake() {
  if (timers_.empty()) return;
  const auto wait = static_cast<double>((timers_.begin()->first - now()).count());
  const Duration delay(static_cast<Duration::rep>(std::max(0.0, wait) / rate_) + 1);
  truth_.call_after(delay, [this, mine = ++wakes_] {
    if (mine == wakes_) call_due();
  });
}

void SimClock::call_due() {
  while (!timers_.empty() && timers_.begin()->first <= now()) {
    const auto then = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    then();
  }
  wake();
}

void SimClock::set_rate(double rate) {
  base_ = now();
  true_base_ = truth_.now();
  rate_ = rate;
  wake();
}

void SimClock::jump(Duration ahead) {
  base_ += ahead;
  wake();
}

}  // namespace s3oram::test
