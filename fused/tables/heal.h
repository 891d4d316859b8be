// Puts a vault.db that SQLite finds damaged in order, before a mount uses it: a search in it may
// miss rows that are there, and a change may make it worse.
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
  std::filesystem::path copy;  // of the file as it was
  std::uint64_t mended = 0;    // rows that had lost a bit, and were put right by their checksums
  std::uint64_t gaps = 0;      // places in the tables of files where rows may be lost
};

enum class HealFor {
  order,  // what SQLite finds damaged
  rows,   // also rows of files that are not as they were written: some can be put right
};

/// Whether there are such rows, as far as they can be read.
bool has_changed_rows(Database& database);

/// Makes a new file of all rows that can be read, and has it take the place of the database, of
/// which a copy is kept (vault.db.damaged). `disk` has the key of a sealed one, which is not looked
/// at for its order: SQLite reads no page of it that is not as it was written. A sealed one that
/// has lost pages stays as it is. Where rows of files may be lost, a row that cannot be stands in
/// for them: who asks for what may have been there gets an error, and fsck finds it. std::nullopt
/// if nothing is wrong; reads the whole file. Nobody has the database open. Errors: damaged_vault
/// (nothing of it can be read, or pages are lost), disk_full.
Result<std::optional<HealedDatabase>> heal_database(const std::filesystem::path& database,
                                                    HealFor what, Disk& disk = system_disk());

}  // namespace s3oram
