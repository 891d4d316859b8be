// The SQL function row_checksum(value, ...), which every Database has: XXH3-64 of the values and
// their types. A row that keeps it beside its other columns tells when one of them has changed by
// itself, to a value that is as possible as the one that was written.
#pragma once

struct sqlite3;

namespace s3oram {

/// Gives the connection the function. An SQLite result code.
int add_row_checksum(sqlite3* connection);

}  // namespace s3oram
