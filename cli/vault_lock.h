// Locks a vault for commands that need it for themselves.
#pragma once

#include "oramcore/vault/vault.h"

namespace s3oram {

/// Calls Vault::lock_when_left(), and tells the user that it waits. Errors: vault_in_use.
Status lock_vault(Vault& vault);

}  // namespace s3oram
