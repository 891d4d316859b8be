// A database as a set of files: the database file, SQLite's log beside it, and the log's index.
#pragma once

#include <filesystem>
#include <string>

#include "oramcore/base/disk.h"

namespace s3oram {

/// Returns the path of the log of the database at `path`.
std::filesystem::path log_of(const std::filesystem::path& path);

/// Copies the log into the file, which is complete without the log afterwards. `disk` has the key
/// of a sealed database. Errors: damaged_vault, vault_in_use, ...
Status fold_log(const std::filesystem::path& path, Disk& disk = system_disk());

/// Durably copies the database and its log, to a name that is free: the database's name followed by
/// `suffix`, and a number if necessary. Returns that name. Nobody may write to the database
/// meanwhile.
Result<std::filesystem::path> keep_copy(const std::filesystem::path& path,
                                        const std::string& suffix);

/// Removes the database, its log and the log's index. Succeeds if they do not exist.
Status remove_database(const std::filesystem::path& path);

/// Replaces the database at `path` with `made`, which must not be open, in the same directory.
/// Durable when it returns. If the power fails, the old file may have lost its log.
Status replace_database(const std::filesystem::path& made, const std::filesystem::path& path,
                        Disk& disk = system_disk());

}  // namespace s3oram
