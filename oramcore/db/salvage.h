// What can still be read of a damaged SQLite file.
#pragma once

#include <string>
#include <vector>

#include "oramcore/base/disk.h"

namespace s3oram {

struct SalvagedTable {
  std::string name;
  std::uint64_t rows = 0;
  bool whole = false;  // every row could be read
};

/// Makes the database `to`, which does not exist, with the tables of the database `from`, all rows
/// that can be read, and fresh indexes. Damaged rows come along if SQLite can read them, unless
/// they break a constraint. `to` is sealed if `disk` has a page key, `from` may be. `from` is not
/// changed, and `to` not yet durable. Errors: damaged_vault (not even the list of the tables can be
/// read), disk_full.
Result<std::vector<SalvagedTable>> salvage(const std::string& from, const std::string& to,
                                           Disk& disk = system_disk());

}  // namespace s3oram
