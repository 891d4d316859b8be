// Who uses a mount: for messages.
#pragma once

#include <filesystem>
#include <string>

namespace s3oram {

/// The processes that have something inside of `point` open, mapped, or as their directory: "bash
/// (process 12), less (process 34)"; the first few of them. Empty if there are none, or none that
/// the caller may look at. Asks no daemon.
std::string users_of_mount(const std::filesystem::path& point);

}  // namespace s3oram
