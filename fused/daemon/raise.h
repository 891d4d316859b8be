// Seals the vault.db of a vault that an older version made.
#pragma once

#include "oramcore/db/sealed_disk.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Replaces a plain vault.db by a sealed one with the same rows, if nothing is wrong with it;
/// before that it looks through all of it. At any instant the one or the other is there, whole.
/// What is damaged, or has no room, stays plain: gives the reason, for a user, which the log says
/// too; empty if it is sealed. Errors: vault.json cannot be written. The vault is locked, and
/// nobody has vault.db open. To the disk, these are the steps seal-made, seal-marked, seal-replaced
/// and seal-wiped.
Result<std::string> raise_database(Vault& vault, SealedDisk& disk);

}  // namespace s3oram
