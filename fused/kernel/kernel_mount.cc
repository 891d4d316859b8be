// Mounts a FUSE file system with fsopen(2), fsmount(2) and move_mount(2).
#include "fused/kernel/kernel_mount.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "fused/kernel/guard.h"
#include "oramcore/base/mountinfo.h"
#include "oramcore/base/program.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

struct Attribute {
  std::string_view name;
  unsigned set, cleared;
};
// As with libfuse, device files and the setuid bit have no effect unless an option asks for them.
constexpr unsigned kDefault = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
constexpr std::array kAttributes = {
    Attribute{"ro", MOUNT_ATTR_RDONLY, 0},     Attribute{"noatime", MOUNT_ATTR_NOATIME, 0},
    Attribute{"noexec", MOUNT_ATTR_NOEXEC, 0}, Attribute{"exec", 0, MOUNT_ATTR_NOEXEC},
    Attribute{"nosuid", MOUNT_ATTR_NOSUID, 0}, Attribute{"suid", 0, MOUNT_ATTR_NOSUID},
    Attribute{"nodev", MOUNT_ATTR_NODEV, 0},   Attribute{"dev", 0, MOUNT_ATTR_NODEV}};

unsigned attributes_of(const std::vector<std::string>& options) {
  unsigned attributes = kDefault;
  for (const std::string& option : options) {
    const auto known = std::ranges::find(kAttributes, option, &Attribute::name);
    if (known != kAttributes.end()) attributes = (attributes & ~known->cleared) | known->set;
  }
  return attributes;
}

/// A file system that is being configured. Keeps the first failure.
class Configuration {
 public:
  Configuration()
      : context_(static_cast<int>(::syscall(SYS_fsopen, "fuse", FSOPEN_CLOEXEC))),
        error_(context_.get() < 0 ? errno : 0) {}

  void set(const char* name, const std::string& value) {
    call(FSCONFIG_SET_STRING, name, value.c_str());
  }
  void set(const char* name) { call(FSCONFIG_SET_FLAG, name, nullptr); }

  /// Returns a mount that has no mount point yet. If it returns no descriptor, errno says why.
  Descriptor mount(unsigned attributes) {
    call(FSCONFIG_CMD_CREATE, nullptr, nullptr);
    errno = error_;
    if (error_ != 0) return {};
    return Descriptor(
        static_cast<int>(::syscall(SYS_fsmount, context_.get(), FSMOUNT_CLOEXEC, attributes)));
  }

 private:
  void call(unsigned command, const char* name, const char* value) {
    if (error_ == 0 && ::syscall(SYS_fsconfig, context_.get(), command, name, value, 0) != 0)
      error_ = errno;
  }
  const Descriptor context_;
  int error_;
};

/// Returns the number of the connection. AT_STATX_DONT_SYNC keeps the kernel from asking the
/// daemon.
std::optional<unsigned> connection_of(const Descriptor& mount) {
  struct statx status {};
  if (::statx(mount.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &status) != 0)
    return std::nullopt;
  return status.stx_dev_minor;
}

tl::unexpected<Error> failure(const DirectoryHandle& point, const char* what) {
  const int error = errno;
  return fail(Errc::bad_mount_point, "{} could not be mounted: {}: {}", point.path.string(), what,
              std::strerror(error));
}

}  // namespace

bool gives_rights(const std::vector<std::string>& options) {
  return (attributes_of(options) & kDefault) != kDefault;
}

Status check_mount_owner(const DirectoryHandle& point, uid_t uid) {
  if (is_roots(point.status.st_uid) || point.status.st_uid == uid) return {};
  return fail(Errc::bad_mount_point,
              "{} belongs to user {}, and the vault to user {}; root mounts it only at a directory "
              "of that user or of root",
              point.path.string(), point.status.st_uid, uid);
}

Result<KernelMount> mount_by_descriptor(const DirectoryHandle& point,
                                        const KernelMountOptions& options) {
  KernelMount mounted;
  mounted.device = Descriptor(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (mounted.device.get() < 0) return failure(point, "/dev/fuse");
  Configuration fuse;
  fuse.set("source", options.source);
  fuse.set("subtype", "s3oramfs");
  fuse.set("fd", std::to_string(mounted.device.get()));
  fuse.set("rootmode", fmt::format("{:o}", point.status.st_mode & S_IFMT));
  fuse.set("user_id", std::to_string(options.uid));
  fuse.set("group_id", std::to_string(options.gid));
  fuse.set("default_permissions");
  const auto has = [&](const char* option) {
    return std::ranges::find(options.options, option) != options.options.end();
  };
  if (has("allow_other")) fuse.set("allow_other");
  if (has("ro")) fuse.set("ro");
  const Descriptor mount = fuse.mount(attributes_of(options.options));
  if (mount.get() < 0) return failure(point, "the kernel refuses it");
  if (::syscall(SYS_move_mount, mount.get(), "", point.descriptor.get(), "",
                MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
    return failure(point, "the mount point");
  if (const auto connection = connection_of(mount)) mounted.abort = Guard::abort_of(*connection);
  return mounted;
}

Status unmount(const std::filesystem::path& point) {
  if (::geteuid() != 0) {
    S3O_ASSIGN(auto end, run_program({"fusermount3", "-u", "-q", "-z", "--", point}));
    return end.succeeded() ? Status()
                           : fail(Errc::failed, "{}: fusermount3 failed", point.string());
  }
  // The name may lead elsewhere by now, so the opened directory must be the mount of a vault.
  const auto mount = vault_mounted_at(point);
  const Descriptor root(::open(point.c_str(), O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC));
  if (!mount || mount_id(root.get()) != mount->id)
    return fail(Errc::failed, "{}: another mount is there", point.string());
  if (::umount2(fmt::format("/proc/self/fd/{}", root.get()).c_str(), MNT_DETACH) == 0) return {};
  return system_failure(errno, "{}: umount", point.string());
}

}  // namespace s3oram
