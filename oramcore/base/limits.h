// The limits of resources that a process inherits from whoever starts it (ulimit, systemd's
// Limit...=, TasksMax=), settled in one place when a program starts, and the words for what they
// forbid.
#pragma once

#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <string_view>

#include "oramcore/base/error.h"

namespace s3oram {

/// Call it first in main(), before any thread exists and before anything is allocated for long.
///   - SIGXFSZ is ignored: a write beyond the limit of file sizes fails with EFBIG.
///   - Soft limits are raised to the hard ones: file size, open files, address space, data,
///     processes, processor time. The stack of the main thread gets 8 MiB, if that is allowed.
///   - Every later thread has a stack of 2 MiB, whatever `ulimit -s` says.
///   - Files that the process makes are its user's alone (umask 077).
///   - Where there is no more memory, the process says so and ends with Errc::failed, instead of
///     an exception that no thread expects.
void settle_limits();

/// A limit that does not hold.
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// How large this process may make a file (RLIMIT_FSIZE), in bytes.
std::uint64_t file_size_limit();
/// How much memory it may map (the least of RLIMIT_AS and RLIMIT_DATA), in bytes.
std::uint64_t address_space_limit();
/// How much processor time it may use (RLIMIT_CPU), in seconds.
std::uint64_t processor_time_limit();

/// What a program needs at least.
struct Needs {
  std::uint64_t file_bytes = 0;  // of the largest file
  std::uint64_t open_files = 0;
  std::uint64_t address_space = 0;  // bytes
};
/// Whether the limits of this process allow that. `what` begins the message. Errors: unsupported,
/// which names the limit, what it is, what is needed, and how to raise it.
Status check_limits(std::string_view what, const Needs& needs);

/// Whether so many threads more can be started now: starts them, and ends them. For libraries that
/// end the process when they are refused one. Errors: failed.
Status check_threads(unsigned count);

/// What an errno means, with the limit that was met, if it is one.
std::string reason_of(int error);
/// The same of a process or a thread that could not be started.
std::string reason_not_started(int error);
/// The same of an exception: of the standard library's for no memory and no threads.
std::string reason_of(const std::exception& exception);

}  // namespace s3oram
