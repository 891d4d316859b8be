// Starts threads. The system may refuse a thread, which is reported before anything depends on it.
#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "oramcore/base/error.h"
#include "oramcore/base/limits.h"

namespace s3oram {

/// Starts a thread that runs `work()`. `purpose` is for messages ("answering the control socket").
/// Errors: failed.
template <class Work>
Result<std::thread> start_thread(std::string_view purpose, Work work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    return fail(Errc::failed, "no thread can be started for {}: {}", purpose,
                reason_not_started(error.code().value()));
  }
}

}  // namespace s3oram
