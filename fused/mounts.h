// What is mounted, and whether a vault may be mounted somewhere.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "oramcore/base/error.h"

namespace s3oram {

struct MountEntry {
  std::string mountpoint, type, source;
};

/// Reads text in the form of /proc/self/mountinfo.
std::vector<MountEntry> parse_mounts(const std::string& mountinfo);
/// The mounts that this process sees.
std::vector<MountEntry> current_mounts();
/// Where `vault` (an absolute path) is mounted by s3oramfs; empty if nowhere.
std::string mountpoint_of(const std::filesystem::path& vault);

/// Both paths absolute. Errors: bad_mount_point.
Status check_mountpoint(const std::filesystem::path& mountpoint,
                        const std::filesystem::path& vault);

}  // namespace s3oram
