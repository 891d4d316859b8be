// What is mounted, as the kernel tells.
#pragma once

#include <string>
#include <vector>

namespace s3oram {

struct MountEntry {
  std::string mountpoint, type, source;
};

/// The lines of /proc/self/mountinfo, in their order; malformed ones are left out.
std::vector<MountEntry> parse_mounts(const std::string& mountinfo);
std::vector<MountEntry> current_mounts();

}  // namespace s3oram
