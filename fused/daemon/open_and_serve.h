// Opens everything that a mount serves, from the vault's database to the files, and closes it in
// the reverse order.
#pragma once

#include <optional>

#include "fused/daemon/locked_state.h"
#include "fused/daemon/serve_mount.h"
#include "fused/options/options.h"
#include "oramcore/base/error.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Opens the vault's volume and files, and serves them. If the mount is to be locked, returns what
/// is left of it.
Result<std::optional<LockedState>> open_and_serve(const MountCommand& command, Vault& vault,
                                                  const VaultKeys& keys, Entrance& entrance,
                                                  Audience& audience);

}  // namespace s3oram
