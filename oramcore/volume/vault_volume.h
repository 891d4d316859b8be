// What a vault says of its volume, and the checks before that is used.
#pragma once

#include <string>

#include "oramcore/base/disk.h"
#include "oramcore/schemes/registry.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Returns what the vault's scheme does.
const VolumeKind& kind_of(const Vault& vault);
/// Returns what a client of the volume needs of the vault.
ClientVolume client_volume(const Vault& vault, const VaultKeys& keys);
/// As PeerRequest has it.
std::string peer_text(Party server, const ServerAddress& address);

/// Checks that vault.db belongs to this volume, before any server is asked.
Status check_owner(const Vault& vault, const VaultKeys& keys);
/// Checks that the vault is ready, and has a vault.db of this volume.
Status check_usable(const Vault& vault, const VaultKeys& keys);
/// Checks that the server can be replaced.
Status check_replaceable(const Vault& vault, Party server);
/// Checks the rows of places in vault.db before a migration goes on, because a block whose row is
/// bad would be taken from the source, which has an old content of it.
Status check_places(const Vault& vault, Disk& disk);

}  // namespace s3oram
