// What to do when something takes much longer than it should.
#pragma once

#include <functional>
#include <memory>

#include "oramcore/base/async.h"

namespace s3oram {

/// Calls `then`, on the clock's executor, if `work` still exists once `after` has passed. Looks at
/// short intervals and ends soon after `work` does: a timer for the whole time would keep the
/// executor, and with it a volume that is being closed, waiting for nothing. `clock` must outlive
/// `work`.
void when_overdue(Clock& clock, Duration after, std::weak_ptr<const void> work,
                  std::function<void()> then);

}  // namespace s3oram
