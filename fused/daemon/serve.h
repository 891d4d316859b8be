// Serves the files of an open volume until the mount ends or is to be locked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "fused/daemon/background.h"
#include "fused/daemon/control_socket.h"
#include "fused/daemon/watched.h"
#include "fused/files/kernel_references.h"
#include "fused/kernel/fuse_mount.h"
#include "fused/options/options.h"
#include "oramcore/base/descriptor.h"

namespace s3oram {

/// The name of the control socket in the vault's run directory.
inline constexpr auto kControlSocket = "control.sock";

/// Processes to notify when the mount succeeds, fails or ends.
struct Audience {
  Background command;   // the command that started the daemon, until it is ready
  LastWord at_the_end;  // commands that unmount
};

/// How an open file system gets a mount, and whom it tells.
struct Entrance {
  std::function<Result<std::unique_ptr<FuseMount>>(FileSystem&)> mount;
  /// Called when requests are answered. Errors: nobody wants the mount any more.
  std::function<Status()> ready;
  KernelReferences references;  // of a mount that the kernel has already
  Descriptor cpu_latency;
  std::int64_t since = 0;  // s since 1970
};

/// Everything between an open volume and a closed one: the mount, the control socket, metrics,
/// signals and the watches. Returns the mount if it is being locked.
Result<std::optional<HeldMount>> serve(const MountCommand& command, const Watched& watched,
                                       Entrance& entrance, Audience& audience);

}  // namespace s3oram
