// Gathering servers that were invited: each is handed a string; when all have answered, each is
// told of all the others.
#pragma once

#include <functional>
#include <vector>

#include "cli/server_option.h"
#include "oramcore/net/invitation.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Hands out the invitations of those servers that have not answered yet.
using Deliver = std::function<Status(const std::vector<Invitation>& invitations)>;

/// What stands in a vault for the key of an invited server until it has told it: nobody has the
/// secret key to it.
PublicKey unknown_key(const VolumeId& volume, Party server);

/// Returns when all servers of the vault have joined, and know each other; the vault is locked, and
/// has their keys then. It can be called again at any time. Errors: unreachable (not all have
/// joined within the time that `patience` says), and those of `deliver`.
Status gather_servers(Vault& vault, const VaultKeys& keys, const Patience& patience,
                      const Deliver& deliver);

}  // namespace s3oram
