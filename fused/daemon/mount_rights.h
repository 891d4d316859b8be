// What a mount needs of the rights of whoever started it. For root, who mounts somebody else's
// vault, all of that is settled before anything of the vault is read:
//   1. the vault's directory and the mount point are opened, and everything is taken from these;
//   2. a process is forked that can mount at this mount point, once, and nothing else;
//   3. the passphrase or key file, which may be for root alone, is read;
//   4. root becomes the vault's owner for good.
// From then on the daemon, and the servers that it starts, are programs of the owner's.
#pragma once

#include <filesystem>
#include <optional>

#include "fused/daemon/options.h"
#include "fused/kernel/kernel_mount.h"
#include "oramcore/base/descriptor.h"
#include "oramcore/base/directory.h"
#include "oramcore/base/errand.h"
#include "oramcore/base/error.h"
#include "oramcore/vault/credential.h"

namespace s3oram {

class MountRights {
 public:
  /// Does the steps above, as far as they are for this user. To be called with one thread; what
  /// fails leaves a process that is to end. Errors: those of VaultPlace::open() and
  /// VaultPlace::check_files(), bad_mount_point, usage (options that could give a user root's
  /// rights), those of read_early().
  static Result<MountRights> settle(const MountCommand& command);

  /// The vault's directory.
  const std::filesystem::path& vault() const { return vault_; }
  const EarlySecret& secret() const { return secret_; }
  /// Whether root mounts for somebody else.
  bool is_for_other() const { return mounting_.is_prepared(); }

  /// Mounts by descriptor. None if this user mounts by fusermount3. Once. Errors: bad_mount_point.
  Result<std::optional<KernelMount>> mount(const MountCommand& command);

  /// What a FuseMount's run() takes. Once.
  Descriptor take_cpu_latency() { return std::move(cpu_latency_); }

 private:
  MountRights() = default;
  Status become_owner(const MountCommand& command, const class VaultPlace& place);

  std::filesystem::path vault_;
  EarlySecret secret_;
  Descriptor cpu_latency_;
  std::optional<DirectoryHandle> point_;  // of root, who stays root
  Errand mounting_;                       // of root, who has become somebody else
};

}  // namespace s3oram
