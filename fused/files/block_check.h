// Compares the blocks that the device holds with those that files and backups own, at the mount.
#pragma once

#include <cstdint>
#include <vector>

#include "fused/backup/backups.h"
#include "fused/files/files_state.h"

namespace s3oram {

/// Finds out which of the `mapped` blocks are free, and which extents can be believed, and tells
/// the cache. Frees blocks that were written before a crash and whose extents did not commit.
/// Returns how many blocks files name and the device does not hold. Errors: damaged_vault.
Result<std::uint64_t> check_blocks(FilesState& state, const Backups& backups,
                                   const std::vector<BlockId>& mapped);

}  // namespace s3oram
