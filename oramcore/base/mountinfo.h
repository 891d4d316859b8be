// What is mounted, as the kernel tells.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace s3oram {

inline constexpr const char* kVaultMountType = "fuse.s3oramfs";

struct VaultMount {
  std::filesystem::path point;
  std::filesystem::path vault;  // absolute
  unsigned connection = 0;      // its number, the minor one of its device
  unsigned id = 0;              // of the mount
  uid_t user = 0;               // who serves it, and the group
  gid_t group = 0;
  friend bool operator==(const VaultMount&, const VaultMount&) = default;
};

/// `name` as the kernel would list a mount there: absolute, and without links before its last part.
/// Does not look at what it names, whose daemon may hang.
std::filesystem::path as_mount_point(const std::filesystem::path& name);

/// Both absolute; a path is inside of itself.
bool is_inside(const std::filesystem::path& inner, const std::filesystem::path& outer);

/// The mounted vaults that the text of a /proc/PID/mountinfo lists, the newest first. Malformed
/// lines are left out.
std::vector<VaultMount> parse_vault_mounts(const std::string& mountinfo);
/// Those that this process sees now.
std::vector<VaultMount> vault_mounts();

/// Whether the daemon that served the mount has ended. False also where the caller may not look.
bool is_dead(const std::filesystem::path& point);

/// The number of the mount that an open file or directory lies in; 0 if it is not known.
unsigned mount_id(int file);

/// Whether another mount hides this one: what uses its point uses the other.
bool is_covered(const VaultMount& mount);

/// Where something, of any kind, is mounted further inside of a mount at `point`.
std::optional<std::filesystem::path> mount_inside(const std::filesystem::path& point);

/// The newest mount of a vault at `point`, which is as as_mount_point() gives it.
std::optional<VaultMount> vault_mounted_at(const std::filesystem::path& point);

}  // namespace s3oram
