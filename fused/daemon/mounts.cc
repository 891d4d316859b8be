#include "fused/daemon/mounts.h"

#include <fcntl.h>
#include <unistd.h>

#include <system_error>

#include "oramcore/base/human.h"
#include "oramcore/base/mountinfo.h"
#include "oramcore/base/program.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

Status check_mountpoint(const std::filesystem::path& mountpoint,
                        const std::filesystem::path& vault) {
  // A mount's daemon may hang, and others, even root, may not look into somebody's mount.
  if (const auto mount = vault_mounted_at(mountpoint)) {
    const auto used = Vault::is_in_use(mount->vault);  // not by its daemon, if it was moved
    if (used && !*used && is_dead(mountpoint))
      return fail(Errc::bad_mount_point,
                  "{}: a dead mount is in the way: run s3oramfs umount {} first",
                  mountpoint.string(), shell_word(mountpoint));
    return fail(Errc::bad_mount_point, "{} is taken: the vault {} is mounted there",
                mountpoint.string(), mount->vault.string());
  }
  std::error_code error;
  const auto status = std::filesystem::status(mountpoint, error);
  if (status.type() == std::filesystem::file_type::none)
    return fail(Errc::bad_mount_point, "{}: {}", mountpoint.string(), error.message());
  if (!std::filesystem::exists(status))
    return fail(Errc::bad_mount_point, "{} does not exist: make that folder first",
                mountpoint.string());
  if (!std::filesystem::is_directory(status))
    return fail(Errc::bad_mount_point, "{} is not a folder", mountpoint.string());
  if (is_inside(mountpoint, vault) || is_inside(vault, mountpoint))
    return fail(Errc::bad_mount_point,
                "{} and the vault {} lie inside each other: mount it elsewhere",
                mountpoint.string(), vault.string());
  return {};
}

Status check_empty(const DirectoryHandle& mountpoint) {
  const Descriptor readable(
      ::openat(mountpoint.descriptor.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::error_code error;
  const auto here = std::filesystem::path(fmt::format("/proc/self/fd/{}", readable.get()));
  if (std::filesystem::is_empty(here, error) && !error) return {};
  return fail(Errc::bad_mount_point,
              "{} is not empty: root mounts other users' vaults only on empty directories",
              mountpoint.path.string());
}

Status note_umount_helper(const std::filesystem::path& vault,
                          const std::filesystem::path& mountpoint) {
  if (::geteuid() != 0 || ::access("/sbin/umount.fuse.s3oramfs", X_OK) != 0) return {};
  // A mount that is only noted.
  auto end = run_program({"mount", "-i", "-f", "-c", "-t", kVaultMountType, "-o",
                          "uhelper=fuse.s3oramfs", vault, mountpoint});
  if (!end) return fail(std::move(end).error());
  if (end->succeeded()) return {};
  return fail(Errc::failed, "{}: umount(8) could not be told of its helper: use s3oramfs umount",
              mountpoint.string());
}

}  // namespace s3oram
