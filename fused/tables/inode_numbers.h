// Keeps inode numbers from being given out twice: a file handle (NFS, name_to_handle_at) holds only
// the number, and must not find another file. No table has the numbers of deleted inodes, so a row
// of `fs_state` keeps a number above all that were given out. A crash may lose inodes whose numbers
// have been seen by programs, so numbers are reserved in that row before they are given out.
#pragma once

#include "fused/tables/rows.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {

/// The number of inode numbers that are reserved at a time; a crash may skip them.
inline constexpr Ino kReservedAtOnce = 1 << 16;
/// A restore skips this many numbers above those that were reserved when the backup of the names
/// was made, because others may have been given out since. More are unlikely. (A backup of an older
/// version does not say what was reserved; then the restore skips from the largest number in it.)
inline constexpr Ino kSkippedByRestore = 1 << 24;

/// Returns the first number that is not reserved; 0 if none is stored, or an impossible one.
Result<Ino> read_reserved(Database& database);
Status note_reserved(Database& database, Ino first_free);

}  // namespace s3oram
