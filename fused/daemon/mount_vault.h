// The two ways to a served mount: a vault is mounted, or a locked mount is unlocked.
#pragma once

#include <optional>

#include "fused/daemon/locked_state.h"
#include "fused/daemon/serve_mount.h"
#include "fused/options/options.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Mounts a vault for the first time, and serves it. If the mount is to be locked, returns what is
/// left of it.
Result<std::optional<LockedState>> mount_vault(const MountCommand& command, Audience& audience);

/// Holds a locked mount until it is unlocked, and then serves it. If the mount is to be locked
/// again, returns what is left of it.
Result<std::optional<LockedState>> serve_locked(const MountCommand& command, LockedState state,
                                                Audience& audience);

}  // namespace s3oram
