// Heals a vault.db that SQLite finds damaged, before a mount uses it: a search in a damaged one may
// miss existing rows, and a change may make it worse.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "oramcore/base/disk.h"
#include "oramcore/base/error.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {

struct HealedDatabase {
  std::string damage;          // what was found
  std::filesystem::path copy;  // of the damaged file
  std::uint64_t mended = 0;    // rows in which a single bit was put right, by their checksums
  std::uint64_t gaps = 0;      // places in the tables of files where rows may be lost
};

enum class HealFor {
  order,  // heals if SQLite finds damage
  rows,   // also if rows of files do not fit their checksums: some can be put right
};

/// Returns whether rows of files do not fit their checksums, as far as they can be read.
bool has_changed_rows(Database& database);

/// Makes a new file from all rows that can be read and puts it in the place of the database, of
/// which it keeps a copy (vault.db.damaged). Where rows of files may be lost it inserts a row with
/// impossible values: a lookup there fails with an error, and fsck finds it. `disk` has the key of
/// a sealed database. HealFor::order does nothing to a sealed one, because its seals already keep
/// SQLite from reading a damaged page; one that has lost pages stays as it is. Reads the whole
/// file. Returns std::nullopt if nothing is wrong. Nobody may have the database open. Errors:
/// damaged_vault (nothing of it can be read, or pages are lost), disk_full.
Result<std::optional<HealedDatabase>> heal_database(const std::filesystem::path& database,
                                                    HealFor what, Disk& disk = system_disk());

}  // namespace s3oram
