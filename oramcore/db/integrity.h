// Checks whether SQLite finds a database sound: its pages, the order of its rows, and its indexes.
#pragma once

#include <string>

#include "oramcore/db/sqlite.h"

namespace s3oram {

/// Reads the whole file (a million rows in less than a second). Returns the first problems in
/// words; empty if the database is sound. Errors: damaged_vault, failed (the file cannot be read at
/// all).
Result<std::string> find_damage(Database& database);

}  // namespace s3oram
