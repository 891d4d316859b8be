// For commands that need the vault for themselves.
#pragma once

#include "oramcore/vault/vault.h"

namespace s3oram {

/// Vault::lock_when_left(), while the user is told that it waits. Errors: vault_in_use.
Status lock_vault(Vault& vault);

/// For root, who gives up its rights for good: what is made in the vault must be its owner's. After
/// all secrets have been read, which may be for root's eyes only.
Status become_owner(const Vault& vault);

}  // namespace s3oram
