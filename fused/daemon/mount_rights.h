// Does what needs the rights of the user who started a mount. If root mounts another user's vault,
// these steps come before anything in the vault is read:
//   1. the vault's directory and the mount point are opened, and from then on used by descriptor;
//   2. a process is forked that can mount at this mount point, once, and do nothing else;
//   3. the passphrase or key file, which perhaps only root can read, is read;
//   4. root becomes the vault's owner for good.
// Afterwards the daemon, and the servers that it starts, run as the owner.
#pragma once

#include <filesystem>
#include <optional>

#include "fused/kernel/kernel_mount.h"
#include "fused/options/options.h"
#include "oramcore/base/descriptor.h"
#include "oramcore/base/directory.h"
#include "oramcore/base/errand.h"
#include "oramcore/base/error.h"
#include "oramcore/vault/credential.h"

namespace s3oram {

class MountRights {
 public:
  /// Does those of the steps above that apply to this user. Call it while the process has one
  /// thread. After an error the process must exit. Errors: those of VaultPlace::open() and
  /// VaultPlace::check_files(), bad_mount_point, usage (options that could give a user root's
  /// rights), those of read_early().
  static Result<MountRights> settle(const MountCommand& command);

  /// Returns the vault's directory.
  const std::filesystem::path& vault() const { return vault_; }
  const EarlySecret& secret() const { return secret_; }
  /// Returns whether root mounts for another user.
  bool is_for_other() const { return mounting_.is_prepared(); }

  /// Mounts by descriptor. Returns std::nullopt if this user must mount through fusermount3. Call
  /// it once. Errors: bad_mount_point.
  Result<std::optional<KernelMount>> mount(const MountCommand& command);

  /// Returns the descriptor for FuseMount::start(). Call it once.
  Descriptor take_cpu_latency() { return std::move(cpu_latency_); }

 private:
  MountRights() = default;
  Status become_owner(const MountCommand& command, const class VaultPlace& place);

  std::filesystem::path vault_;
  EarlySecret secret_;
  Descriptor cpu_latency_;
  std::optional<DirectoryHandle> point_;  // if root stays root
  Errand mounting_;                       // if root has become another user
};

}  // namespace s3oram
