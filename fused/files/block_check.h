// Compares, at mount time, the blocks that the device holds with those that files and backups own.
#pragma once

#include <cstdint>
#include <vector>

#include "fused/backup/backups.h"
#include "fused/files/files_state.h"

namespace s3oram {

/// Finds out which of the `mapped` blocks are free and which extents can be trusted, and tells the
/// cache. Frees blocks that were written before a crash and whose extents did not commit. Returns
/// how many blocks are named by files but not held by the device. Errors: damaged_vault.
Result<std::uint64_t> check_blocks(FilesState& state, const Backups& backups,
                                   const std::vector<BlockId>& mapped);

}  // namespace s3oram
