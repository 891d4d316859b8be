// Checks the file system's tables against each other and against the blocks that the volume holds,
// and works out the repair. Needs neither the servers nor FUSE.
//
// A check runs in a transaction of the caller. It creates missing tables, so that it can read all
// of them. The caller ends the transaction with a commit or, to change nothing, with a rollback.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fused/tables/rows.h"
#include "fused/tables/table.h"
#include "oramcore/db/finding.h"

namespace s3oram {

struct FileCheckInput {
  std::uint32_t block_size = 0;
  std::vector<bool> mapped;        // by block: whether the volume holds it
  bool all_known = true;           // a block that is not `mapped` does not exist anywhere
  std::set<BlockId> unreadable;    // mapped, but too few servers had it intact at the last read
  std::int64_t now = 0;            // ns since 1970; the times of inodes that are recreated
  std::uint32_t uid = 0, gid = 0;  // the owner of a root directory that is recreated
};

struct FileCheck {
  Findings findings;
  /// The reason, if the files cannot be checked or repaired at all.
  std::optional<Error> refused;

  // The repair.
  std::vector<std::string> statements;  // SQL, run first
  Table<InodeTable>::Changes inodes;
  Table<DentryTable>::Changes dentries;
  Table<ExtentTable>::Changes extents;
  Table<XattrTable>::Changes xattrs;

  std::uint64_t files = 0, names = 0, blocks = 0;  // checked
};

/// Checks all files. A bad row costs at most the file that it belongs to. Files that have lost
/// their names go to /lost+found.
FileCheck check_files(Database& database, const FileCheckInput& input);

/// Carries out the repair of `check`, in the caller's transaction.
Status repair_files(Database& database, const FileCheck& check);

}  // namespace s3oram
