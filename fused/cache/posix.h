// Errors of file operations: errno values, which appear only in the daemon.
#pragma once

#include <cerrno>
#include <tl/expected.hpp>

#include "oramcore/base/error.h"

namespace s3oram {

/// A T or an errno, which callers may not ignore.
template <class T>
class [[nodiscard]] Posix : public tl::expected<T, int> {
 public:
  using tl::expected<T, int>::expected;
};
using PosixStatus = Posix<void>;

inline tl::unexpected<int> posix_error(int number) { return tl::unexpected<int>(number); }

/// Returns the errno that a program gets when the device or the database fails.
inline int to_errno(const Error& error) { return error.code == Errc::disk_full ? ENOSPC : EIO; }
inline int to_errno(int number) { return number; }
/// Returns the code that a command gets for the errno of a failed barrier.
inline Errc code_of_barrier(int number) {
  return number == ENOSPC ? Errc::disk_full : Errc::unreachable;
}

}  // namespace s3oram

/// If `expr`, a Result or a Posix, is an error, returns its errno from the enclosing function.
#define S3O_POSIX_TRY(expr)                                                  \
  do {                                                                       \
    if (auto s3o_outcome = (expr); !s3o_outcome)                             \
      return ::s3oram::posix_error(::s3oram::to_errno(s3o_outcome.error())); \
  } while (false)
/// Returns the errno of `expr` in the same way, or puts its value into the new variable `name`.
#define S3O_POSIX_GET(name, expr)                                                      \
  auto name##_or = (expr);                                                             \
  if (!name##_or) return ::s3oram::posix_error(::s3oram::to_errno(name##_or.error())); \
  auto& name = *name##_or
