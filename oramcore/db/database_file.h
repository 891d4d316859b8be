// A database as a set of files: the file itself, and beside it SQLite's log and the log's index.
#pragma once

#include <filesystem>
#include <string>

#include "oramcore/base/disk.h"

namespace s3oram {

/// Returns the path of the log of the database at `path`.
std::filesystem::path log_of(const std::filesystem::path& path);

/// Copies the log into the file, which is whole without it afterwards. `disk` has the key of a
/// sealed database. Errors: damaged_vault, vault_in_use, ...
Status fold_log(const std::filesystem::path& path, Disk& disk = system_disk());

/// Copies the database and its log durably, to a name that is free: the database's with `suffix`,
/// and perhaps a number, behind it. Returns that name. Nobody may write the database meanwhile.
Result<std::filesystem::path> keep_copy(const std::filesystem::path& path,
                                        const std::string& suffix);

/// Removes the database, its log and the log's index. Succeeds if they do not exist.
Status remove_database(const std::filesystem::path& path);

/// Puts the database `made`, which nobody has open, in the place of the one at `path`, in the same
/// directory. Durable when it returns. If the power fails, the old file may have lost its log.
Status replace_database(const std::filesystem::path& made, const std::filesystem::path& path,
                        Disk& disk = system_disk());

}  // namespace s3oram
