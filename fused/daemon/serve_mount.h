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

/// Gives an open file system its mount, and is notified when the mount is served.
struct Entrance {
  std::function<Result<std::unique_ptr<FuseMount>>(FileSystem&)> mount;
  /// Called once requests are answered. Errors: the mount is no longer wanted.
  std::function<Status()> ready;
  KernelReferences references;  // what the kernel refers to, if the mount already exists
  Descriptor cpu_latency;
  std::int64_t since = 0;  // s since 1970
};

/// Runs everything between opening a volume and closing it: the mount, the control socket, metrics,
/// signals and the watches. Returns the mount if it is being locked.
Result<std::optional<HeldMount>> serve(const MountCommand& command, const Watched& watched,
                                       Entrance& entrance, Audience& audience);

}  // namespace s3oram
