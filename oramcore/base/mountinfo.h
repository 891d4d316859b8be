// Reads from the kernel which file systems are mounted.
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
  unsigned connection = 0;      // its number, which is the minor number of its device
  unsigned id = 0;              // id of the mount
  uid_t user = 0;               // the user and group that serve it
  gid_t group = 0;
  friend bool operator==(const VaultMount&, const VaultMount&) = default;
};

/// Returns `name` as the kernel would list a mount at that place: absolute, and without links
/// before its last part. Does not access the mount itself, whose daemon may hang.
std::filesystem::path as_mount_point(const std::filesystem::path& name);

/// Returns whether `inner` is `outer` or lies inside it. Both must be absolute.
bool is_inside(const std::filesystem::path& inner, const std::filesystem::path& outer);

/// Returns the mounted vaults in the text of a /proc/PID/mountinfo, newest first. Skips malformed
/// lines.
std::vector<VaultMount> parse_vault_mounts(const std::string& mountinfo);
/// Returns the mounted vaults that this process sees now.
std::vector<VaultMount> vault_mounts();

/// Returns whether the daemon that served the mount has ended. Also returns false if the caller has
/// no access.
bool is_dead(const std::filesystem::path& point);

/// Returns the number of the mount in which an open file or directory lies; 0 if unknown.
unsigned mount_id(int file);

/// Returns whether another mount hides this one, so that its path leads to the other mount.
bool is_covered(const VaultMount& mount);

/// Returns where something is mounted inside a mount at `point`; std::nullopt if nowhere.
std::optional<std::filesystem::path> mount_inside(const std::filesystem::path& point);

/// Returns the newest mount of a vault at `point`, a path from as_mount_point().
std::optional<VaultMount> vault_mounted_at(const std::filesystem::path& point);

}  // namespace s3oram
