// No inode number is given twice: a file handle (NFS, name_to_handle_at) holds the number alone,
// and must not find another file. The numbers of inodes that are gone stand in no table. The
// database therefore keeps a number above all that were given: a row of `fs_state`. A crash may
// lose inodes whose numbers somebody has seen, so numbers are reserved there before they are given.
#pragma once

#include "fused/tables/rows.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {

/// How many numbers a crash may skip.
inline constexpr Ino kReservedAtOnce = 1 << 16;
/// How many are skipped when a backup of the names is restored: more than are given between two.
inline constexpr Ino kSkippedByRestore = 1 << 24;

/// The first number that is not reserved; 0 if none is noted, or if it is an impossible one.
Result<Ino> read_reserved(Database& database);
Status note_reserved(Database& database, Ino first_free);

}  // namespace s3oram
