// A database's files as one: the file itself, and beside it SQLite's log and the log's index.
#pragma once

#include <filesystem>
#include <string>

#include "oramcore/base/disk.h"

namespace s3oram {

/// The log of the database at `path`.
std::filesystem::path log_of(const std::filesystem::path& path);

/// Has the file hold everything, without its log. If it is sealed, `disk` has its key. Errors:
/// damaged_vault, vault_in_use, ...
Status fold_log(const std::filesystem::path& path, Disk& disk = system_disk());

/// Copies the database, which nobody writes, and its log beside it: durably, and under a name that
/// is free. Gives that name: `suffix`, and perhaps a number, behind the database's.
Result<std::filesystem::path> keep_copy(const std::filesystem::path& path,
                                        const std::string& suffix);

/// What is not there need not be removed.
Status remove_database(const std::filesystem::path& path);

/// The database `made`, which nobody has open, takes the place of what is at `path`, in the same
/// directory. Durable when it returns. If the power fails, the former file may lack its log.
Status replace_database(const std::filesystem::path& made, const std::filesystem::path& path,
                        Disk& disk = system_disk());

}  // namespace s3oram
