// Finds rows that SQLite cannot reach because a page above them in the tree is lost, but whose own
// pages still exist. The format is SQLite's: https://sqlite.org/fileformat.html.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "oramcore/base/disk.h"
#include "oramcore/base/error.h"

namespace s3oram {

/// Copies such rows of the sealed database `from` (made by gather_pages()) into the tables with the
/// same names in `to`, if it does not have the rows yet. Returns how many, by table. `disk` has the
/// key of both. Leaves out rows that fit more than one of the tables with lost pages. Copies
/// nothing if the list of free pages is lost, because free pages hold deleted rows.
Result<std::map<std::string, std::uint64_t>> copy_orphan_rows(const std::filesystem::path& from,
                                                              const std::filesystem::path& to,
                                                              Disk& disk);

}  // namespace s3oram
