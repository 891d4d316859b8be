// Turns exceptions into errors, at the outer edge of a daemon's work.
#pragma once

#include <exception>

#include "oramcore/base/error.h"
#include "oramcore/base/limits.h"

namespace s3oram {

/// Returns what `work` returns, or an error if it throws (no memory, no more threads ...), so that
/// everything opened before is closed in order.
template <class Work>
auto guarded(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    return fail(Errc::failed, "{}", reason_of(error));
  }
}

}  // namespace s3oram
