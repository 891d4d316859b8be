// Finds the processes that use a mount, for messages.
#pragma once

#include <filesystem>
#include <string>

namespace s3oram {

/// Returns the processes that have something inside `point` open, mapped, or as their directory:
/// "bash (process 12), less (process 34)"; only the first few. Returns an empty string if there are
/// none, or none that the caller may see. Does not access the mount's daemon.
std::string users_of_mount(const std::filesystem::path& point);

}  // namespace s3oram
