// What is mounted, as the kernel tells.
#pragma once

#include <filesystem>
#include <optional>
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

/// `name` as the kernel would list a mount there: absolute, and without links before its last part.
/// Does not look at what it names, whose daemon may hang.
std::filesystem::path as_mount_point(const std::filesystem::path& name);

/// The mounted vaults, in their order.
std::vector<VaultMount> vaults_among(const std::vector<MountEntry>& entries);

/// The newest mount of a vault at `point`, which is as as_mount_point() gives it.
std::optional<VaultMount> vault_mounted_at(const std::filesystem::path& point);

}  // namespace s3oram
