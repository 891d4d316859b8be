// Determines how much memory this process may use, and how much of it is left, according to its
// control groups (versions 1 and 2, each with its parents) and the machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "oramcore/base/error.h"

namespace s3oram {

/// Returns the lowest of the limits of the control groups, RLIMIT_AS and RLIMIT_DATA, and the
/// machine's memory, in bytes. `root` is put before /proc and /sys.
std::uint64_t usable_memory(const std::filesystem::path& root = "/");

/// The least memory for a mount: without servers of its own, and with those of a local vault. With
/// this much memory, and the parameters that `init` chooses, no process is killed
/// (tests/system/least_memory.sh).
constexpr std::uint64_t kLeastMount = std::uint64_t{128} << 20;
constexpr std::uint64_t kLeastLocalMount = std::uint64_t{320} << 20;
/// Checks that at least `least` bytes are usable. `what` begins the message. Errors: unsupported.
Status check_memory(std::string_view what, std::uint64_t least);

/// The limit that has the least memory left.
struct MemoryRoom {
  std::uint64_t limit = 0;  // bytes
  /// Bytes that can still be taken. The kernel's file cache counts as free, except for dirty pages.
  std::uint64_t left = 0;

  /// Returns whether the kernel may soon kill a process.
  bool is_short() const;
  /// Returns whether caches may grow.
  bool is_ample() const;
};
MemoryRoom memory_room(const std::filesystem::path& root = "/");

/// Returns the bytes for a server's buckets: max(usable/16, 256 MiB), but never more than usable/8,
/// divided by the number of servers that share this memory.
std::size_t default_cache_bytes(std::uint64_t usable, unsigned servers = 1);

/// The smallest cache for file contents of a mount.
constexpr std::size_t kLeastFileCache = 8 << 20;
/// Returns the bytes for file contents: 256 MiB, but never more than usable/8, and never less than
/// kLeastFileCache.
std::size_t default_file_cache(std::uint64_t usable);

}  // namespace s3oram
