// The mounted vaults, as the kernel lists them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "oramcore/base/error.h"
#include "oramcore/base/mountinfo.h"

namespace s3oram {

struct Mount {
  std::filesystem::path point;
  std::filesystem::path vault;  // absolute
  friend bool operator==(const Mount&, const Mount&) = default;
};

/// The mounted vaults, in their order.
std::vector<Mount> vaults_among(const std::vector<MountEntry>& entries);

/// The newest mount that `name`, a mount point or a vault, stands for. Works for a mount point
/// whose daemon is dead. Errors: not_mounted.
Result<Mount> find_mount(const std::filesystem::path& name);

}  // namespace s3oram
