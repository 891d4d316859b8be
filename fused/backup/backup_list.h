// Reads and writes which blocks hold backups (table `backups` of vault.db), and whether the last
// backup contains everything that vault.db holds (a row of `fs_state`).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "oramcore/db/sqlite.h"
#include "oramcore/oram/block_device.h"

namespace s3oram {

/// A backup, and the blocks that are kept for it.
struct BackupList {
  std::vector<BlockId> blocks;  // the blocks, in the order of the backup's content
  std::size_t used = 0;         // the backup fills this many of them, from the first on
  std::uint64_t generation = 0;
  std::int64_t time = 0;  // ns since 1970
};

/// Replaces the content of the table.
Status write_lists(Database& database, const std::vector<BackupList>& lists);
/// Returns the lists, the oldest first; none if there is no table.
Result<std::vector<BackupList>> read_lists(Database& database);

/// No backup has this generation. It is stored when a repair has lost rows that the last backup may
/// hold, and nothing has changed since.
constexpr std::uint64_t kRowsLost = 0;

/// Stores the generation of the backup that contains everything; std::nullopt if none does.
Status note_current(Database& database, std::optional<std::uint64_t> generation);
Result<std::optional<std::uint64_t>> read_current(Database& database);

}  // namespace s3oram
