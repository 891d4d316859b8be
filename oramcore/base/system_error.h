// What a system call failed with, as an Error.
#pragma once

#include <cerrno>

#include "oramcore/base/error.h"
#include "oramcore/base/limits.h"

namespace s3oram {

/// Of an errno, or the value of a std::error_code of the system: disk_full if a disk, or what its
/// user may have of it, has no room left, or a file may not grow; otherwise failed.
inline Errc code_of(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG ? Errc::disk_full : Errc::failed;
}

/// fail() with the code of `error`; what it means ends the message: system_failure(errno, "fsync
/// {}", path) gives "fsync PATH: Input/output error".
template <class... Args>
tl::unexpected<Error> system_failure(int error, fmt::format_string<Args...> format,
                                     Args&&... args) {
  return fail(code_of(error), "{}: {}", fmt::format(format, std::forward<Args>(args)...),
              reason_of(error));
}

}  // namespace s3oram
