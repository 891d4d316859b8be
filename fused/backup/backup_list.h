// Which blocks hold backups: the table `backups` of vault.db; and whether the last one is of all
// that vault.db holds: a row of `fs_state`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "oramcore/db/sqlite.h"
#include "oramcore/oram/block_device.h"

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

/// Notes the generation of the backup that knows of everything; nothing: none does.
Status note_current(Database& database, std::optional<std::uint64_t> generation);
Result<std::optional<std::uint64_t>> read_current(Database& database);

}  // namespace s3oram
