// Which blocks hold backups: the table `backups` of vault.db.
#pragma once

#include <cstdint>
#include <vector>

#include "oramcore/client/block_device.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {

/// A backup, and the blocks that are kept for it.
struct BackupList {
  std::vector<BlockId> blocks;  // in order
  std::size_t used = 0;         // of them, from the first
  std::uint64_t generation = 0;
  std::int64_t time = 0;  // ns since 1970
};

/// Puts them into the table, in place of what is there.
Status write_lists(Database& database, const std::vector<BackupList>& lists);
/// The oldest first; nothing if there is no table.
Result<std::vector<BackupList>> read_lists(Database& database);

}  // namespace s3oram
