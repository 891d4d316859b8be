// The files of a vault that moves to another volume. vault.json decides: once it names the new
// volume, everything else follows, at the latest when the vault is next opened.
//
// When a migration begins, the tables of the current volume are copied to source/vault.db, and its
// top.cache gets a second name there. This changes nothing for the current volume. Then vault.json
// is replaced (Vault::begin_migration), and settle_migration() does the rest; it can be repeated.
// In one transaction of vault.db, the tables of the new volume replace those of the current one;
// the tables of files beside them are kept. Then files and stores of local servers are renamed. So
// names and extents are kept with the volume to which blocks move, and commit with its positions as
// before.
//
// When a migration ends, no block is at the source. vault.json no longer names the source
// (Vault::end_migration), and settle_migration() removes its files.
//
// A table of places is dropped, and a file of them removed, only on proof: the owner's row in
// vault.db says whose tables it holds. If it names neither of the two volumes, a file was restored
// from a copy or belongs to another vault, and nothing is touched.
#pragma once

#include <cstdint>

#include "oramcore/vault/vault.h"

namespace s3oram {

/// Checks that nothing is in the place where a migration keeps the files of the volume that it
/// leaves. Errors: exists (stores of local servers from an earlier migration, or files of the
/// user).
Status check_source_place(const Vault& vault);

/// Checks that a volume whose tree has this height takes this number of blocks. Block numbers are
/// dense, except for some that are free, and a volume takes only numbers below most_blocks().
/// Errors: unsupported.
Status check_block_numbers(std::uint64_t blocks, unsigned height, const VolumeParams& params);

/// Checks that the vault could begin to move to the volume in next/. Errors: usage (there is none),
/// vault_in_use (a migration is under way), those of check_source_place(), disk_full (there is no
/// room for copies of vault.db and top.cache).
Status check_migration(const Vault& vault);

/// Makes the volume in next/, which its servers already hold, the vault's volume, and the current
/// one its source. Neither may be in use. Errors: those of check_migration(), damaged_vault, ... If
/// vault.config() has a source afterwards, the migration has begun, even after an error.
Status begin_migration(Vault& vault, const VaultKeys& keys, std::uint64_t rate);

/// Reads vault.json again, and completes what begin_migration() or the end of a migration left to
/// do. Must be called with the vault locked, before anything else is opened. Errors: damaged_vault
/// (vault.db belongs to neither volume), disk_full, failed.
Status settle_migration(Vault& vault, const VaultKeys& keys);

/// Ends a migration and gives up the blocks that are left at the source. Renames what the vault
/// keeps of the source to a free name, copies the current vault.json there, and records that the
/// vault has moved. Returns the new path, or an empty path if there was nothing to keep. Must be
/// called with the vault locked, and again after a crash. After an error vault.json says whether
/// the vault has moved; if it has not, everything is as before.
Result<std::filesystem::path> leave_source(Vault& vault);

}  // namespace s3oram
