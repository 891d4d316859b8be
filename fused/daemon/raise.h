// Seals a vault.db that an older version made.
#pragma once

#include "oramcore/db/sealed_disk.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Checks all of a plain vault.db and, if it is sound, replaces it by a sealed one with the same
/// rows. At any instant one of the two is there, whole. If it is damaged, or the disk has no room,
/// it stays plain: then logs and returns the reason, for a user. Returns an empty text if vault.db
/// is sealed. The vault is locked, and nobody has vault.db open. To the disk, these are the steps
/// seal-made, seal-marked, seal-replaced and seal-wiped. Errors: vault.json cannot be written.
Result<std::string> raise_database(Vault& vault, SealedDisk& disk);

}  // namespace s3oram
