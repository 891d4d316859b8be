// The mounted vaults, as the kernel lists them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "oramcore/base/error.h"

namespace s3oram {

struct Mount {
  std::filesystem::path point;
  std::filesystem::path vault;  // absolute
  friend bool operator==(const Mount&, const Mount&) = default;
};

/// The s3oramfs lines of a text in the format of /proc/self/mountinfo, in its order.
std::vector<Mount> parse_mounts(const std::string& mountinfo);

/// The newest mount that `name`, a mount point or a vault, stands for. Works for a mount point
/// whose daemon is dead. Errors: not_mounted.
Result<Mount> find_mount(const std::filesystem::path& name);

}  // namespace s3oram
