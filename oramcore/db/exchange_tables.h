// Copies tables of one database into another, in one transaction.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "oramcore/db/sqlite.h"

namespace s3oram {

struct TableExchange {
  std::vector<std::string> dropped;  // tables dropped from the database, if they exist
  std::filesystem::path from;        // a database on the same disk, which is not changed
  std::vector<std::string> copied;   // tables copied whole from `from`; missing ones are left out
};

/// Drops the tables in `dropped` and copies those in `copied`; after an error, nothing has changed.
/// The tables must have no indexes. `what` names the transaction (Database::commit). Errors:
/// damaged_vault, disk_full, failed.
Status exchange_tables(Database& database, const TableExchange& exchange, std::string_view what);

}  // namespace s3oram
