// What can be said of a database's file before its key is known: SQLite's header, which is never
// sealed.
#pragma once

#include <cstdint>
#include <filesystem>

#include "oramcore/base/error.h"
#include "oramcore/db/page_seal.h"

namespace s3oram {

struct DatabaseHeader {
  enum class Kind { none, other, plain, sealed } kind = Kind::none;  // none: there is nothing
  bool is_damaged = false;         // it says what no database of ours does
  std::uint32_t user_version = 0;  // of a sealed one: the format of what is in it
};

/// Of the file's first bytes.
DatabaseHeader parse_header(ByteSpan bytes);
/// Of a file of the system; Kind::none also if it cannot be read.
DatabaseHeader read_header(const std::filesystem::path& file);

/// The format of the seals, which a sealed database says in the clear, as SQLite's user_version,
/// beside SQLite's application_id.
inline constexpr std::uint32_t kSealFormat = 1, kApplication = 0x73336f72;  // "s3or"
/// Errors: unsupported (a newer format).
Status require_known_seals(const std::filesystem::path& file);

/// Whether the pages of a sealed database are another key's. (If none can be read, they are not.)
bool is_of_other_key(const std::filesystem::path& file, const PageKey& key);

}  // namespace s3oram
