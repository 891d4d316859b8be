// Asks for the passphrase or key file of a vault, and opens the vault's keys with it.
#pragma once

#include <filesystem>

#include "fused/daemon/mount_rights.h"
#include "fused/options/options.h"
#include "oramcore/base/error.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Checks that the vault can be locked and that its format is known, before the user is asked for
/// the passphrase. Does not keep the lock, so that other commands can run while the user types.
Status check_vault(const std::filesystem::path& directory);

/// Asks the user for the credential, locks the vault, and returns its keys. rights.secret() holds
/// what only root could read.
Result<VaultKeys> unlock_when_told(const MountCommand& command, const MountRights& rights,
                                   Vault& vault);

}  // namespace s3oram
