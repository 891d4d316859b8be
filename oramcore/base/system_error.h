// Turns the errno of a failed system call into an Error.
#pragma once

#include <cerrno>

#include "oramcore/base/error.h"
#include "oramcore/base/limits.h"

namespace s3oram {

/// Returns the code for an errno, or for the value of a system std::error_code: disk_full if a disk
/// or a quota is full, or a file may not grow; otherwise failed.
inline Errc code_of(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG ? Errc::disk_full : Errc::failed;
}

/// Calls fail() with the code for `error`, and appends the meaning of `error` to the message:
/// system_failure(errno, "fsync {}", path) gives "fsync PATH: Input/output error".
template <class... Args>
tl::unexpected<Error> system_failure(int error, fmt::format_string<Args...> format,
                                     Args&&... args) {
  return fail(code_of(error), "{}: {}", fmt::format(format, std::forward<Args>(args)...),
              reason_of(error));
}

}  // namespace s3oram
