// Gives up root's rights before a mount. The order of the steps makes sure that nothing that users
// have written is read with these rights.
#include "fused/daemon/mount_rights.h"

#include <unistd.h>

#include <memory>
#include <utility>

#include "fused/daemon/mounts.h"
#include "fused/kernel/cpu_latency.h"
#include "oramcore/base/identity.h"
#include "oramcore/vault/vault_place.h"

namespace s3oram {
namespace {

Result<DirectoryHandle> open_mount_point(const MountCommand& command) {
  auto point = open_directory(command.named_mountpoint);
  if (!point) return fail(Errc::bad_mount_point, "{}", point.error().message);
  if (point->path != command.mountpoint)
    return fail(Errc::bad_mount_point, "{} has meanwhile become another directory: {}",
                command.mountpoint.string(), point->path.string());
  return point;
}

/// Returns the work of the process that keeps root's rights.
Errand::Work mounting_for(const User& user, DirectoryHandle point, const MountCommand& command,
                          const std::filesystem::path& vault) {
  const auto at = std::make_shared<DirectoryHandle>(std::move(point));
  const KernelMountOptions options{vault.string(), command.fuse_options, user.uid, user.gid};
  return [at, options](ByteSpan, std::vector<Descriptor>& files) -> Status {
    S3O_TRY(check_mountpoint(at->path, options.source));  // again, because it may have changed
    S3O_TRY(check_empty(*at));
    S3O_ASSIGN(auto mounted, mount_by_descriptor(*at, options));
    files.push_back(std::move(mounted.device));
    if (mounted.abort.get() >= 0) files.push_back(std::move(mounted.abort));
    return {};
  };
}

}  // namespace

Result<MountRights> MountRights::settle(const MountCommand& command) {
  S3O_ASSIGN(auto place, VaultPlace::open(command.named_vault));
  MountRights rights;
  rights.vault_ = ::geteuid() == 0 ? place.path() : command.vault;
  S3O_TRY(check_mountpoint(command.mountpoint, rights.vault_));
  if (!command.fake) S3O_TRY(check_fuse());
  if (::geteuid() == 0) {
    S3O_ASSIGN(auto point, open_mount_point(command));
    rights.point_ = std::move(point);
    rights.cpu_latency_ = CpuLatency::of_this_machine();
  }
  if (place.owner()) S3O_TRY(rights.become_owner(command, place));
  S3O_TRY(place.check_files());
  return rights;
}

Status MountRights::become_owner(const MountCommand& command, const VaultPlace& place) {
  const User& user = *place.owner();
  DirectoryHandle point = std::move(*point_);
  point_.reset();
  S3O_TRY(check_mount_owner(point, user.uid));
  if (gives_rights(command.fuse_options))
    return fail(Errc::usage,
                "-o suid and -o dev: root does not mount other users' vaults with these, because "
                "files there could give those users root's rights");
  S3O_ASSIGN(auto mounting, Errand::prepare(mounting_for(user, std::move(point), command, vault_)));
  mounting_ = std::move(mounting);
  if (!command.fake) {
    S3O_ASSIGN(auto secret, read_early(command.passphrase, command.keyfile));
    secret_ = std::move(secret);
  }
  return become(user,
                SetuidPrograms::usable);  // the daemon needs fusermount3 to unmount by itself
}

Result<std::optional<KernelMount>> MountRights::mount(const MountCommand& command) {
  if (mounting_.is_prepared()) {
    S3O_ASSIGN(auto files, mounting_.run());
    if (files.empty()) return fail(Errc::bad_mount_point, "the mount has no device");
    KernelMount mounted;
    mounted.device = std::move(files.front());
    if (files.size() > 1) mounted.abort = std::move(files[1]);
    return std::optional(std::move(mounted));
  }
  S3O_TRY(check_mountpoint(command.mountpoint, vault_));  // again, because it may have changed
  if (!point_) return std::optional<KernelMount>();
  S3O_ASSIGN(auto mounted, mount_by_descriptor(*point_, {vault_.string(), command.fuse_options,
                                                         ::geteuid(), ::getegid()}));
  point_.reset();  // it would keep the underlying file system in use
  return std::optional(std::move(mounted));
}

}  // namespace s3oram
