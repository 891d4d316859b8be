// Copies what can still be read of a damaged SQLite file.
#pragma once

#include <string>
#include <vector>

#include "oramcore/base/disk.h"
#include "oramcore/db/page.h"

namespace s3oram {

struct SalvagedTable {
  std::string name;
  std::uint64_t rows = 0;
  bool whole = false;        // every row could be read, damaged or not
  std::uint64_t mended = 0;  // rows in which a single changed bit was corrected
  /// Rows after which others may be missing. An empty row stands for the start of the table.
  std::vector<RowValues> gaps;
};

/// Makes the database `to`, which must not exist, with the tables of the database `from`, all rows
/// that can be read, and fresh indexes. Corrects a row in which a single bit has changed, if the
/// row stores a checksum (row_checksum.h). Copies other damaged rows as they are, unless they break
/// a constraint or have the key of another row. `to` is sealed if `disk` has a page key; `from` may
/// be sealed. `from` is not changed, and `to` is not yet durable. The log of `from` must be empty,
/// unless it could not be folded. Errors: damaged_vault (the list of tables cannot be read),
/// disk_full.
Result<std::vector<SalvagedTable>> salvage(const std::string& from, const std::string& to,
                                           Disk& disk = system_disk());

}  // namespace s3oram
