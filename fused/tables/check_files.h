// Checks the tables of the file system, against each other and against the blocks that the volume
// holds, and works out what would mend them. Needs neither the servers nor FUSE.
//
// A check runs in a transaction of the caller: it makes missing tables at once, so that it has all
// of them to look at; the caller ends the transaction with a commit or, to change nothing, with a
// rollback.
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
  std::set<BlockId> unreadable;    // of those: too few servers had it intact when it was asked for
  std::int64_t now = 0;            // ns since 1970: the times of what is made anew
  std::uint32_t uid = 0, gid = 0;  // who owns a root that is made anew
};

struct FileCheck {
  Findings findings;
  /// Why the files cannot be checked or mended at all, if so.
  std::optional<Error> refused;

  // What mends them.
  std::vector<std::string> statements;  // SQL, run first
  Table<InodeTable>::Changes inodes;
  Table<DentryTable>::Changes dentries;
  Table<ExtentTable>::Changes extents;
  Table<XattrTable>::Changes xattrs;

  std::uint64_t files = 0, names = 0, blocks = 0;  // that were looked at
};

/// One bad row costs at most the file it belongs to; what has lost its name goes to /lost+found.
FileCheck check_files(Database& database, const FileCheckInput& input);

Status repair_files(Database& database, const FileCheck& check);

}  // namespace s3oram
