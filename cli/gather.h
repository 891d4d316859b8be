// Gathers invited servers: hands each of them a string and, when all have answered, tells each
// about all the others.
#pragma once

#include <functional>
#include <vector>

#include "cli/server_option.h"
#include "oramcore/net/invitation.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Hands out the invitations of the servers that have not answered yet.
using Deliver = std::function<Status(const std::vector<Invitation>& invitations)>;

/// Returns what a vault stores in place of an invited server's key until the server has told it. No
/// one has a secret key for it.
PublicKey unknown_key(const VolumeId& volume, Party server);

/// Returns when all servers of the vault have joined and know each other, and the vault has their
/// keys. The vault must be locked. May be called again at any time. Errors: unreachable (not all
/// have joined within the time that `patience` allows), and those of `deliver`.
Status gather_servers(Vault& vault, const VaultKeys& keys, const Patience& patience,
                      const Deliver& deliver);

}  // namespace s3oram
