// Seals a vault.db that an older version made.
#pragma once

#include "oramcore/db/sealed_disk.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Checks all of a plain vault.db and, if it is sound, replaces it with a sealed one with the same
/// rows. At any instant one of the two files exists, whole. If vault.db is damaged, or the disk has
/// no room, it stays plain; raise_database() then logs the reason and returns it as a text for the
/// user. Returns an empty text if vault.db is sealed. The vault must be locked, and vault.db must
/// not be open. Reports to the disk the steps seal-made, seal-marked, seal-replaced and seal-wiped.
/// Errors: vault.json cannot be written.
Result<std::string> raise_database(Vault& vault, SealedDisk& disk);

}  // namespace s3oram
