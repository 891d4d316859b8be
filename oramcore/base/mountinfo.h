// What is mounted, as the kernel tells.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace s3oram {

struct MountEntry {
  std::string mountpoint, type, source;
};

/// The lines of /proc/self/mountinfo, in their order; malformed ones are left out.
std::vector<MountEntry> parse_mounts(const std::string& mountinfo);
std::vector<MountEntry> current_mounts();

inline constexpr const char* kVaultMountType = "fuse.s3oramfs";

struct VaultMount {
  std::filesystem::path point;
  std::filesystem::path vault;  // absolute
  friend bool operator==(const VaultMount&, const VaultMount&) = default;
};

/// The mounted vaults, in their order.
std::vector<VaultMount> vaults_among(const std::vector<MountEntry>& entries);

}  // namespace s3oram
