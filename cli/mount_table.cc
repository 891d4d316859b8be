#include "cli/mount_table.h"

#include <algorithm>

namespace s3oram {

Result<VaultMount> find_mount(const std::filesystem::path& name) {
  const auto mounts = vault_mounts();
  const auto find = [&](const std::filesystem::path& path) {
    return std::ranges::find_if(mounts, [&](const VaultMount& mount) {
      return mount.point == path || mount.vault == path;
    });
  };
  const auto point = as_mount_point(name);
  auto found = find(point);
  std::error_code error;
  if (found == mounts.end()) found = find(std::filesystem::canonical(point, error));  // a link
  if (found != mounts.end()) return *found;
  return fail(Errc::not_mounted, "{}: no vault is mounted there, and no such vault is mounted",
              name.string());
}

}  // namespace s3oram
