// Reads and writes the row of vault.db that keeps inode numbers from being given out twice.
#include "fused/tables/inode_numbers.h"

namespace s3oram {

Result<Ino> read_reserved(Database& database) {
  S3O_ASSIGN(auto row,
             database.prepare("SELECT value FROM fs_state WHERE name = 'reserved_inodes'"));
  S3O_ASSIGN(const auto found, row.step());
  const auto first_free = found ? static_cast<Ino>(row.integer(0)) : 0;
  return first_free <= kLargestNewIno ? first_free : 0;
}

Status note_reserved(Database& database, Ino first_free) {
  S3O_ASSIGN(auto put,
             database.prepare(
                 "INSERT OR REPLACE INTO fs_state (name, value) VALUES ('reserved_inodes', ?)"));
  return put.bind(0, static_cast<std::int64_t>(first_free)).run();
}

}  // namespace s3oram
