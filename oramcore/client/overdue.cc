// Waits in short steps for as long as the work exists.
#include "oramcore/client/overdue.h"

#include <algorithm>
#include <chrono>

namespace s3oram {

void when_overdue(Clock& clock, Duration after, std::weak_ptr<const void> work,
                  std::function<void()> then) {
  static constexpr Duration kLook = std::chrono::milliseconds(50);
  clock.call_after(std::min(after, kLook),
                   [&clock, after, work = std::move(work), then = std::move(then)]() mutable {
                     if (work.expired()) return;
                     if (after <= kLook) return then();
                     when_overdue(clock, after - kLook, std::move(work), std::move(then));
                   });
}

}  // namespace s3oram
