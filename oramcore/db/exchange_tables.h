// Puts tables of one database into another, in one transaction.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "oramcore/db/sqlite.h"

namespace s3oram {

struct TableExchange {
  std::vector<std::string> dropped;  // of the database, if they exist
  std::filesystem::path from;        // a database on the same disk, which is not changed
  std::vector<std::string> copied;   // of `from`, with all rows; those that it lacks are left out
};

/// Drops the tables to be dropped and copies those to be copied, all or, on an error, nothing. The
/// tables have no indexes. `what` names the transaction (Database::commit). Errors: damaged_vault,
/// disk_full, failed.
Status exchange_tables(Database& database, const TableExchange& exchange, std::string_view what);

}  // namespace s3oram
