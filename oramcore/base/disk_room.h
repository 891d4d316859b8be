// Whether a disk can hold what is about to be made on it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "oramcore/base/error.h"

namespace s3oram {

/// Whether the file system of `path`, or of the nearest directory above it that is there, can take
/// so many bytes and files more from this user. Where that cannot be told it is taken to be so.
/// Errors: disk_full, with numbers; failed (it can only be read).
Status check_disk_room(const std::filesystem::path& path, std::uint64_t bytes, std::uint64_t files);

}  // namespace s3oram
