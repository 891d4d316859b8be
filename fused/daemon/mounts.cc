// Examines mount points and dead mounts without asking a daemon, which may hang.
#include "fused/daemon/mounts.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/human.h"
#include "oramcore/base/mount_users.h"
#include "oramcore/base/mountinfo.h"
#include "oramcore/base/program.h"
#include "oramcore/base/system_error.h"
#include "oramcore/vault/vault.h"

namespace s3oram {
namespace {

/// Unmounts by a name relative to a directory that is held open, so that a user who can change the
/// path cannot make root unmount something else. Returns an error number.
int unmount_as_root(const VaultMount& mount) {
  const auto open = [](const char* path) {
    return Descriptor(::open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
  };
  const Descriptor here = open("."), folder = open(mount.point.parent_path().c_str());
  if (here.get() < 0 || ::fchdir(folder.get()) != 0) return errno;
  VaultMount named = mount;
  named.point = mount.point.filename();
  const bool same = !is_covered(named);
  const int error = !same                                                  ? EINVAL
                    : ::umount2(named.point.c_str(), UMOUNT_NOFOLLOW) != 0 ? errno
                                                                           : 0;
  return ::fchdir(here.get()) != 0 ? errno : error;
}

/// Runs a program that unmounts. Returns an error number.
Result<int> unmount_by(std::vector<std::string> words, const std::filesystem::path& point) {
  constexpr std::size_t kMostSaid = 4096;
  words.insert(words.end(), {"--", point});
  S3O_ASSIGN(auto end, run_program(words, STDERR_FILENO, kMostSaid));
  if (end.succeeded()) return 0;
  const std::string said(end.said.begin(), end.said.end());
  return said.find(" busy") != std::string::npos ? EBUSY : EPERM;
}

std::string who_uses(const VaultMount& mount) {
  if (const auto inner = mount_inside(mount.point))
    return fmt::format("something is mounted in it, at {}", inner->string());
  const std::string users = users_of_mount(mount.point);
  return users.empty() ? "programs that this user may not inspect use it"
                       : fmt::format("it is used by {}", users);
}

}  // namespace

Status check_fuse() {
  constexpr auto kDevice = "/dev/fuse";
  const Descriptor device(::open(kDevice, O_RDWR | O_CLOEXEC));
  const int error = device.get() < 0 ? errno : 0;
  if (error == ENOENT || error == ENXIO || error == ENODEV)
    return fail(Errc::unsupported,
                "{} is missing: load the module (modprobe fuse); a container needs --device {}",
                kDevice, kDevice);
  if (error == EACCES || error == EPERM)
    return fail(Errc::unsupported,
                "{}: this user may not use it: its mode should be 0666 (chmod 666 {}); a container "
                "needs --device {}",
                kDevice, kDevice, kDevice);
  if (error != 0) return system_failure(error, "{}", kDevice);
  return {};
}

Status clear_dead_mount(const std::filesystem::path& mountpoint) {
  const auto mount = vault_mounted_at(mountpoint);
  if (!mount) return {};
  const auto used = Vault::is_in_use(mount->vault);  // false negative if the vault was moved
  if (!used || *used || !is_dead(mountpoint)) return {};
  S3O_ASSIGN(const auto error, ::geteuid() == 0 ? Result<int>(unmount_as_root(*mount))
                                                : unmount_by({"fusermount3", "-u"}, mount->point));
  if (error == 0) {
    spdlog::info("{}: removed the mount of a daemon that had ended", mountpoint.string());
    return {};
  }
  if (error != EBUSY) return {};  // check_mountpoint() reports it
  return fail(Errc::bad_mount_point,
              "{}: a dead mount is in the way, and {}; end that, or run s3oramfs umount {}",
              mountpoint.string(), who_uses(*mount), shell_word(mountpoint));
}

Result<bool> unmount_if_unused(const std::filesystem::path& mountpoint) {
  // For root's mounts, umount(8) also updates /run/mount/utab; an ordinary user needs the setuid
  // helper.
  const std::vector<std::string> words = ::geteuid() == 0
                                             ? std::vector<std::string>{"umount", "-i"}
                                             : std::vector<std::string>{"fusermount3", "-u"};
  const auto mount = vault_mounted_at(mountpoint);
  if (!mount || is_covered(*mount)) return false;
  std::vector<std::string> all{"env", "LC_ALL=C"};
  all.insert(all.end(), words.begin(), words.end());
  S3O_ASSIGN(const auto error, unmount_by(std::move(all), mountpoint));
  if (error == 0 || error == EBUSY) return error == 0;
  return fail(Errc::bad_mount_point, "{} cannot be unmounted", mountpoint.string());
}

Status check_mountpoint(const std::filesystem::path& mountpoint,
                        const std::filesystem::path& vault) {
  // Access to a mount could hang with its daemon, and is forbidden to other users, even to root.
  if (const auto mount = vault_mounted_at(mountpoint)) {
    const auto used = Vault::is_in_use(mount->vault);  // false negative if the vault was moved
    if (used && !*used && is_dead(mountpoint))
      return fail(Errc::bad_mount_point,
                  "{}: a dead mount is in the way; run s3oramfs umount {} first",
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

Status check_hides_nothing(const std::filesystem::path& mountpoint) {
  std::error_code error;
  const bool empty = std::filesystem::is_empty(mountpoint, error);
  if (error)
    return fail(Errc::bad_mount_point,
                "{}: cannot tell whether it is empty ({}); mount elsewhere, or give -o nonempty",
                mountpoint.string(), error.message());
  if (empty) return {};
  return fail(Errc::bad_mount_point,
              "{} is not empty, and a mount would hide what is in it: mount on an empty folder, "
              "or give -o nonempty",
              mountpoint.string());
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
  // With -f, mount(8) writes to /run/mount/utab without mounting.
  S3O_ASSIGN(auto end, run_program({"mount", "-i", "-f", "-c", "-t", kVaultMountType, "-o",
                                    "uhelper=fuse.s3oramfs", vault, mountpoint}));
  if (end.succeeded()) return {};
  return fail(Errc::failed, "{}: umount(8) could not be told about its helper; use s3oramfs umount",
              mountpoint.string());
}

}  // namespace s3oram
