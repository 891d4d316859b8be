// Checks that a disk can hold the files that are about to be made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "oramcore/base/error.h"

namespace s3oram {

/// How many bytes the file system of `path`, or of the nearest existing directory above it, has
/// free for this user; std::nullopt if that cannot be found out.
std::optional<std::uint64_t> disk_room(const std::filesystem::path& path);

/// Checks that the file system of `path`, or of the nearest existing directory above it, can take
/// `bytes` and `files` more from this user. Succeeds if that cannot be found out. Errors:
/// disk_full, with numbers; failed (it is read-only).
Status check_disk_room(const std::filesystem::path& path, std::uint64_t bytes, std::uint64_t files);

}  // namespace s3oram
