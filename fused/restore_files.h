// Gives a vault its files back whose vault.db was lost: the tables of files are made anew from the
// newest whole backup (backups.h) that the device holds.
#pragma once

#include <cstdint>
#include <vector>

#include "oramcore/client/block_device.h"

namespace s3oram {

struct RestoredFiles {
  std::int64_t time = 0;   // of the backup: ns since 1970
  std::uint64_t rows = 0;  // of all tables
  std::size_t blocks = 0;  // that hold the backup
};

/// `candidates`: the blocks that are said to be parts of backups. Makes the tables in the database
/// that the device commits to, which has none, and commits. Nobody else uses the device; waits.
/// Errors: damaged_vault (no whole backup; nothing was changed).
Result<RestoredFiles> restore_files(BlockDevice& device, const std::vector<BlockId>& candidates);

}  // namespace s3oram
