// The SQL function row_checksum(value, ...) of every Database: XXH3-64 of the values and their
// types. A row that stores it shows when one of its columns has changed on the disk, even to a
// value that is equally plausible.
#pragma once

struct sqlite3;

namespace s3oram {

/// Adds the function to the connection. Returns an SQLite result code.
int add_row_checksum(sqlite3* connection);

}  // namespace s3oram
