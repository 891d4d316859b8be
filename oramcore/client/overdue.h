// Watches for work that takes much longer than it should.
#pragma once

#include <functional>
#include <memory>

#include "oramcore/base/async.h"

namespace s3oram {

/// Calls `then`, on the clock's executor, if `work` still exists once `after` has passed. Polls at
/// short intervals and ends soon after `work` does. A timer for the whole time would keep the
/// executor busy for no reason, and with it a volume that is being closed. `clock` must outlive
/// `work`.
void when_overdue(Clock& clock, Duration after, std::weak_ptr<const void> work,
                  std::function<void()> then);

}  // namespace s3oram
