// Describes a vault's volume, and checks the vault before the volume is used.
#pragma once

#include <string>

#include "oramcore/base/disk.h"
#include "oramcore/schemes/registry.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Returns the functions of the vault's scheme.
const VolumeKind& kind_of(const Vault& vault);
/// Returns what a client of the volume needs to know about the vault.
ClientVolume client_volume(const Vault& vault, const VaultKeys& keys);
/// Returns the text of a PeerRequest that names this server.
std::string peer_text(Party server, const ServerAddress& address);

/// Checks that vault.db belongs to the vault's volume. Call this before asking any server.
Status check_owner(const Vault& vault, const VaultKeys& keys);
/// Checks that the vault is ready and has a vault.db that belongs to its volume.
Status check_usable(const Vault& vault, const VaultKeys& keys);
/// Checks that the server can be replaced.
Status check_replaceable(const Vault& vault, Party server);
/// Checks the places of blocks in vault.db before a migration continues. A block whose row is bad
/// would be read from the source, whose content is outdated.
Status check_places(const Vault& vault, Disk& disk);

}  // namespace s3oram
