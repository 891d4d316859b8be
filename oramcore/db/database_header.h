// SQLite's header of a database file. It is never sealed, so it can be read without the key.
#pragma once

#include <cstdint>
#include <filesystem>

#include "oramcore/base/error.h"
#include "oramcore/db/page_seal.h"

namespace s3oram {

struct DatabaseHeader {
  enum class Kind { none, other, plain, sealed } kind = Kind::none;  // none: the file is too short
  bool is_damaged = false;         // none of our databases has such a header
  std::uint32_t user_version = 0;  // kSealFormat of the writer, if the database is sealed
};

/// Parses the first bytes of a file.
DatabaseHeader parse_header(ByteSpan bytes);
/// Reads the header of `file`. Returns Kind::none if the file cannot be read.
DatabaseHeader read_header(const std::filesystem::path& file);

/// The format of the seals, which is stored in the clear as SQLite's user_version, and SQLite's
/// application_id for sealed databases.
inline constexpr std::uint32_t kSealFormat = 1, kApplication = 0x73336f72;  // "s3or"
/// Checks the format of the seals. Errors: unsupported (a newer format).
Status require_known_seals(const std::filesystem::path& file);

/// Returns whether the pages of a sealed database were sealed with a key other than `key`. Returns
/// false if no page can be read.
bool is_of_other_key(const std::filesystem::path& file, const PageKey& key);

}  // namespace s3oram
