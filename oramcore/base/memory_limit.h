// How much memory this process may use, and how much of that is left. Both look at the control
// groups that it is in (versions 1 and 2, each with those above it) and at the machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "oramcore/base/error.h"

namespace s3oram {

/// Bytes: the least limit of the control groups and of RLIMIT_AS and RLIMIT_DATA, or the machine's
/// memory. `root` stands before /proc and /sys.
std::uint64_t usable_memory(const std::filesystem::path& root = "/");

/// A mount works with no less: without servers of its own, and with those of a local vault. With
/// this much and the numbers that `init` chooses nothing is killed (tests/system/least_memory.sh).
constexpr std::uint64_t kLeastMount = std::uint64_t{128} << 20;
constexpr std::uint64_t kLeastLocalMount = std::uint64_t{320} << 20;
/// Whether at least so many bytes are usable. `what` begins the message. Errors: unsupported.
Status check_memory(std::string_view what, std::uint64_t least);

/// Of whatever has the least left.
struct MemoryRoom {
  std::uint64_t limit = 0;  // bytes
  /// What can be taken yet: what the kernel keeps of files counts as free, but for what it has
  /// still to write.
  std::uint64_t left = 0;

  /// The kernel may soon end a process.
  bool is_short() const;
  /// Caches may grow.
  bool is_ample() const;
};
MemoryRoom memory_room(const std::filesystem::path& root = "/");

/// Bytes for a server's buckets: max(usable/16, 256 MiB), but never more than usable/8, shared by
/// as many servers.
std::size_t default_cache_bytes(std::uint64_t usable, unsigned servers = 1);

/// A mount's daemon works with no less for the contents of files.
constexpr std::size_t kLeastFileCache = 8 << 20;
/// Bytes for them: 256 MiB, but never more than usable/8, nor less than the least.
std::size_t default_file_cache(std::uint64_t usable);

}  // namespace s3oram
