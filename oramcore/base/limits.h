// Resource limits that a process inherits (ulimit, systemd's Limit...=, TasksMax=): set in one
// place when a program starts, checked, and explained in messages.
#pragma once

#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <string_view>

#include "oramcore/base/error.h"

namespace s3oram {

/// Sets the limits. Call it first in main(), before any thread exists and before long-lived memory
/// is allocated.
///   - SIGXFSZ is ignored: a write beyond the limit of file sizes fails with EFBIG.
///   - Soft limits are raised to the hard ones: file size, open files, address space, data,
///     processes, processor time. The stack of the main thread gets 8 MiB, if that is allowed.
///   - Every later thread has a stack of 2 MiB, whatever `ulimit -s` says.
///   - Files that the process makes are accessible only to its user (umask 077).
///   - If memory runs out, the process says so and exits with Errc::failed, instead of throwing an
///     exception that no thread expects.
void settle_limits();

/// The value returned if there is no limit.
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// Returns how large this process may make a file (RLIMIT_FSIZE), in bytes.
std::uint64_t file_size_limit();
/// Returns how much memory this process may map (the lower of RLIMIT_AS and RLIMIT_DATA), in bytes.
std::uint64_t address_space_limit();
/// Returns how much processor time this process may use (RLIMIT_CPU), in seconds.
std::uint64_t processor_time_limit();

/// The resources that a program needs at least.
struct Needs {
  std::uint64_t file_bytes = 0;  // size of the largest file
  std::uint64_t open_files = 0;
  std::uint64_t address_space = 0;  // bytes
};
/// Checks that the limits of this process allow `needs`. `what` begins the message. Errors:
/// unsupported, naming the limit, its value, the need, and how to raise it.
Status check_limits(std::string_view what, const Needs& needs);

/// Checks that `count` more threads can be started now, by starting and ending them. Needed for
/// libraries that end the process when a thread is refused. Errors: failed.
Status check_threads(unsigned count);

/// Returns what an errno means, with the limit that caused it, if one did.
std::string reason_of(int error);
/// Returns why a process or a thread could not be started.
std::string reason_not_started(int error);
/// Returns what an exception means; also explains a lack of memory or threads.
std::string reason_of(const std::exception& exception);

}  // namespace s3oram
