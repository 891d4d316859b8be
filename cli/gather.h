// Gathers invited servers: hands each of them a string and, when all have answered, tells each
// about all the others.
#pragma once

#include <functional>
#include <vector>

#include "cli/server_option.h"
#include "oramcore/net/invitation.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Hands out the invitations of the servers that have not answered yet. Those of the servers that
/// have joined are for someone who can start these servers again: they are worth nothing else.
using Deliver = std::function<Status(const std::vector<Invitation>& missing,
                                     const std::vector<Invitation>& joined)>;

/// Returns what a vault stores in place of an invited server's key until the server has told it. No
/// one has a secret key for it.
PublicKey unknown_key(const VolumeId& volume, Party server);

/// Returns when all servers of the vault have joined and know each other, and the vault has their
/// keys. The vault must be locked. May be called again at any time. Errors: unreachable (not all
/// have joined within the time that `patience` allows), and those of `deliver`.
Status gather_servers(Vault& vault, const VaultKeys& keys, const Patience& patience,
                      const Deliver& deliver);

/// Hands out the invitations of a vault whose servers have all joined.
Status deliver_again(const Vault& vault, const VaultKeys& keys, const Deliver& deliver);

}  // namespace s3oram
