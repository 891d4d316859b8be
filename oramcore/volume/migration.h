// The files of a vault that moves to another volume. vault.json decides: once it names the new
// volume, everything else follows, at the latest when the vault is opened next.
//
// When a migration begins, the tables of the present volume are copied to source/vault.db, and its
// top.cache gets a second name there. Nothing has changed for the present volume yet. Then
// vault.json is replaced (Vault::begin_migration), and the rest is done by settle_migration(), any
// number of times: in one transaction of vault.db the tables of the new volume take the place of
// the present one's, beside the tables of files, which stay; and files and stores of local servers
// are renamed. So names and extents lie with the volume to which blocks move, and commit with its
// positions as ever.
//
// When it ends, no block is at the source. vault.json no longer names it (Vault::end_migration),
// and settle_migration() removes its files.
//
// A table of places is dropped, and a file of them removed, only on proof: the row of the owner in
// vault.db says whose tables are there. If it is neither of the two volumes, a file was brought
// back from a copy or is another vault's, and nothing is touched.
#pragma once

#include <cstdint>

#include "oramcore/vault/vault.h"

namespace s3oram {

/// Checks that nothing is in the place of what a migration keeps of the volume that it leaves.
/// Errors: exists (stores of local servers of an earlier one, or what a user has put there).
Status check_source_place(const Vault& vault);

/// Checks that a volume of this height takes so many blocks. Their numbers are dense, but for some
/// that are free, and a volume takes a number only up to most_blocks(). Errors: unsupported.
Status check_block_numbers(std::uint64_t blocks, unsigned height, const VolumeParams& params);

/// Checks that the vault could begin to move to the volume in next/. Errors: usage (none is there),
/// vault_in_use (a migration is under way), those of check_source_place(), disk_full (the copies of
/// vault.db and top.cache do not fit).
Status check_migration(const Vault& vault);

/// Makes the volume in next/, which its servers have, the vault's, and the present one its source.
/// Nobody uses either. Errors: as of check_migration(), damaged_vault, ... The migration has begun,
/// even after an error, if vault.config() has a source then.
Status begin_migration(Vault& vault, const VaultKeys& keys, std::uint64_t rate);

/// Reads vault.json again, and does what is left to do of begin_migration(), or after an end. To be
/// called with the vault locked, before anything else is opened. Errors: damaged_vault (vault.db is
/// of neither volume), disk_full, failed.
Status settle_migration(Vault& vault, const VaultKeys& keys);

/// Ends a migration although blocks may be left at the source, of which nobody wants more. Renames
/// what the vault keeps of the source to a name that is free, puts the present vault.json beside
/// it, and records that the vault has moved. Returns where that is; empty if nothing was there. To
/// be called with the vault locked; again after a crash. After an error vault.json says whether the
/// vault has moved, and if it has not, everything is as before.
Result<std::filesystem::path> leave_source(Vault& vault);

}  // namespace s3oram
