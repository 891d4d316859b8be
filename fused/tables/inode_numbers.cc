// The row of vault.db that keeps inode numbers from being given twice.
#include "fused/tables/inode_numbers.h"

namespace s3oram {

Result<Ino> read_reserved(Database& database) {
  auto row = database.prepare("SELECT value FROM fs_state WHERE name = 'reserved_inodes'");
  if (!row) return fail(row.error());
  const auto found = row->step();
  if (!found) return fail(found.error());
  const auto first_free = *found ? static_cast<Ino>(row->integer(0)) : 0;
  return first_free <= kLargestNewIno ? first_free : 0;
}

Status note_reserved(Database& database, Ino first_free) {
  auto put = database.prepare(
      "INSERT OR REPLACE INTO fs_state (name, value) VALUES ('reserved_inodes', ?)");
  if (!put) return fail(put.error());
  return put->bind(0, static_cast<std::int64_t>(first_free)).run();
}

}  // namespace s3oram
