// Computes row_checksum() over the values that SQLite passes.
#define XXH_INLINE_ALL
#include "oramcore/db/row_checksum.h"

#include <sqlite3.h>
#include <xxhash.h>

#include <cstdint>

namespace s3oram {
namespace {

/// Adds a value to a checksum: each value's checksum is the seed of the next one.
std::uint64_t add(std::uint64_t sum, sqlite3_value* value) {
  const int type = sqlite3_value_type(value);
  const std::uint64_t seed = sum + static_cast<std::uint64_t>(type);
  switch (type) {
    case SQLITE_INTEGER: {
      const sqlite3_int64 integer = sqlite3_value_int64(value);
      return XXH3_64bits_withSeed(&integer, sizeof integer, seed);
    }
    case SQLITE_FLOAT: {
      const double real = sqlite3_value_double(value);
      return XXH3_64bits_withSeed(&real, sizeof real, seed);
    }
    default: {
      const void* bytes = sqlite3_value_blob(value);
      return XXH3_64bits_withSeed(bytes, static_cast<std::size_t>(sqlite3_value_bytes(value)),
                                  seed);
    }
  }
}

void row_checksum(sqlite3_context* context, int count, sqlite3_value** values) {
  std::uint64_t sum = 0;
  for (int i = 0; i < count; ++i) sum = add(sum, values[i]);
  sqlite3_result_int64(context, static_cast<sqlite3_int64>(sum));
}

}  // namespace

int add_row_checksum(sqlite3* connection) {
  return sqlite3_create_function_v2(connection, "row_checksum", -1,
                                    SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, nullptr,
                                    row_checksum, nullptr, nullptr, nullptr);
}

}  // namespace s3oram
