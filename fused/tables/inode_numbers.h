// Keeps inode numbers from being given out twice: a file handle (NFS, name_to_handle_at) holds only
// the number, and must not find another file. No table has the numbers of deleted inodes, so a row
// of `fs_state` keeps a number above all that were given out. A crash may lose inodes whose numbers
// have been seen by programs, so numbers are reserved in that row before they are given out.
#pragma once

#include "fused/tables/rows.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {

/// How many numbers are reserved at a time; a crash may skip them.
inline constexpr Ino kReservedAtOnce = 1 << 16;
/// How many numbers are skipped above the largest one of a backup of the names that is restored:
/// more than are likely to have been given out and freed since.
inline constexpr Ino kSkippedByRestore = 1 << 24;

/// Returns the first number that is not reserved; 0 if none is stored, or an impossible one.
Result<Ino> read_reserved(Database& database);
Status note_reserved(Database& database, Ino first_free);

}  // namespace s3oram
