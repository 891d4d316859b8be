// Checks that a disk can hold the files that are about to be made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "oramcore/base/error.h"

namespace s3oram {

/// Returns how many bytes are free for this user in the file system of `path`, or of the nearest
/// existing directory above it; std::nullopt if that cannot be determined.
std::optional<std::uint64_t> disk_room(const std::filesystem::path& path);

/// Checks that this user can add `bytes` and `files` to the file system of `path`, or of the
/// nearest existing directory above it. Succeeds if that cannot be determined. Errors: disk_full,
/// with numbers; failed (the file system is read-only).
Status check_disk_room(const std::filesystem::path& path, std::uint64_t bytes, std::uint64_t files);

}  // namespace s3oram
