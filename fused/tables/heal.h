// Heals a vault.db that SQLite finds damaged, before a mount uses it. In a damaged database a
// search may miss existing rows, and a change may do more damage.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "oramcore/base/disk.h"
#include "oramcore/base/error.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {

struct HealedDatabase {
  std::string damage;          // what is damaged
  std::filesystem::path copy;  // where the damaged file was copied
  std::uint64_t mended = 0;    // rows in which a single bit was corrected by means of the checksum
  std::uint64_t gaps = 0;      // places in the tables of files where rows may be lost
};

enum class HealFor {
  order,  // heal if SQLite finds damage
  rows,   // also if rows of files do not match their checksums, because some can be corrected
};

/// Returns whether any readable row of the file tables does not match its checksum.
bool has_changed_rows(Database& database);

/// Makes a new file from all rows that can be read, and replaces the database with it. Keeps a copy
/// of the old one (vault.db.damaged). Where rows of files may be lost, inserts a row with
/// impossible values, so that a lookup there fails with an error and fsck finds the place. `disk`
/// has the key of a sealed database. HealFor::order does nothing to a sealed database, because the
/// seals already keep SQLite from reading a damaged page; a database that has lost pages stays as
/// it is. Reads the whole file. Returns std::nullopt if nothing is wrong. The database must not be
/// open. Errors: damaged_vault (nothing in it can be read, or pages are lost), disk_full.
Result<std::optional<HealedDatabase>> heal_database(const std::filesystem::path& database,
                                                    HealFor what, Disk& disk = system_disk());

}  // namespace s3oram
