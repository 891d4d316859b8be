// Rows that SQLite cannot reach any more, because a page above them is lost: their own pages are
// there, and are found without it. The format is SQLite's: https://sqlite.org/fileformat.html.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "oramcore/base/disk.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Copies such rows of the sealed database `from` (made by gather_pages()) into the tables of the
/// same names in `to`, which does not have them yet; gives how many, by table. `disk` has the key
/// of both. Pages whose table cannot be told, because several tables have lost pages and their rows
/// look alike, are left out; so are all, if the list of free pages, which hold what was deleted, is
/// lost.
Result<std::map<std::string, std::uint64_t>> copy_orphan_rows(const std::filesystem::path& from,
                                                              const std::filesystem::path& to,
                                                              Disk& disk);

}  // namespace s3oram
