// What can still be read of a damaged SQLite file.
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
  std::uint64_t mended = 0;  // of the rows: those that had lost a bit and were put right
  /// Rows behind which others may be missing; an empty one: before all.
  std::vector<RowValues> gaps;
};

/// Makes the database `to`, which does not exist, with the tables of the database `from`, all rows
/// that can be read, and fresh indexes. A row that has lost a single bit is put right where it
/// keeps a checksum (row_checksum.h). Other damaged rows come along as they are, unless they break
/// a constraint or take the key of another. `to` is sealed if `disk` has a page key, `from` may be.
/// `from` is not changed, and `to` not yet durable; the log of `from` is empty, or could not be
/// folded into it. Errors: damaged_vault (not even the list of the tables can be read), disk_full.
Result<std::vector<SalvagedTable>> salvage(const std::string& from, const std::string& to,
                                           Disk& disk = system_disk());

}  // namespace s3oram
