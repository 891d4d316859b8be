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
  std::uint64_t mended = 0;  // of the rows, those in which a single bit was put right
  /// Rows behind which others may be missing. An empty row stands for the start of the table.
  std::vector<RowValues> gaps;
};

/// Makes the database `to`, which does not exist, with the tables of the database `from`, all rows
/// that can be read, and fresh indexes. Puts a row right in which a single bit has changed, if the
/// row stores a checksum (row_checksum.h). Copies other damaged rows as they are, unless they break
/// a constraint or have the key of another row. `to` is sealed if `disk` has a page key; `from` may
/// be. `from` is not changed, and `to` is not yet durable. The log of `from` must be empty, unless
/// it could not be folded. Errors: damaged_vault (the list of tables cannot be read), disk_full.
Result<std::vector<SalvagedTable>> salvage(const std::string& from, const std::string& to,
                                           Disk& disk = system_disk());

}  // namespace s3oram
