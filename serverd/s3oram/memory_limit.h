// How much memory this process may use.
#pragma once

#include <cstdint>
#include <filesystem>

namespace s3oram {

/// Bytes: the least limit of the control groups (both versions) that this process is in, or the
/// machine's memory. `root` stands before /proc and /sys.
std::uint64_t usable_memory(const std::filesystem::path& root = "/");

/// Bytes for buckets: max(usable/16, 256 MiB), but never more than usable/8.
std::size_t default_cache_bytes(std::uint64_t usable);

}  // namespace s3oram
