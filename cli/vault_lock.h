// For commands that need the vault for themselves.
#pragma once

#include "oramcore/vault/vault.h"

namespace s3oram {

/// Vault::lock_when_left(), while the user is told that it waits. Errors: vault_in_use.
Status lock_vault(Vault& vault);

}  // namespace s3oram
