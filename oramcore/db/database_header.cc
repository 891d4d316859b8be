// Reads SQLite's header, and finds out which key sealed the pages after it.
#include "oramcore/db/database_header.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

#include "oramcore/base/format_number.h"

namespace s3oram {

DatabaseHeader parse_header(ByteSpan header) {
  // Offsets from https://sqlite.org/fileformat.html: page size (big-endian), versions for writing
  // and reading, reserved bytes of a page, schema format, user_version.
  constexpr std::size_t kPageSize = 16, kWrite = 18, kRead = 19, kReserved = 20, kSchema = 44,
                        kVersion = 60;
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | header[at + i];
    return value;
  };
  DatabaseHeader found;
  if (header.size() < kClearHeaderBytes) return found;
  const bool sealed = header[kReserved] != 0;
  found.kind = sealed ? DatabaseHeader::Kind::sealed : DatabaseHeader::Kind::plain;
  found.user_version = number(kVersion);
  const bool known = header[kWrite] >= 1 && header[kWrite] <= 2 && header[kRead] >= 1 &&
                     header[kRead] <= 2 && number(kSchema) <= 4;
  const bool fits = header[kReserved] == kSealBytes && header[kPageSize] == kPageBytes >> 8 &&
                    header[kPageSize + 1] == 0;
  const bool is_database = std::ranges::equal(header.first(13), as_bytes("SQLite format"));
  found.is_damaged = is_database && (!known || (sealed && !fits));
  if (!is_database) found.kind = DatabaseHeader::Kind::other;
  return found;
}

DatabaseHeader read_header(const std::filesystem::path& file) {
  Bytes bytes(kClearHeaderBytes);
  std::ifstream stream(file, std::ios::binary);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return parse_header(bytes);
}

Status require_known_seals(const std::filesystem::path& file) {
  const DatabaseHeader header = read_header(file);
  if (header.kind != DatabaseHeader::Kind::sealed || header.user_version <= kSealFormat) return {};
  return unknown_format(file.string(), header.user_version, kSealFormat);
}

bool is_of_other_key(const std::filesystem::path& file, const PageKey& key) {
  constexpr unsigned kMost = 64;  // pages; damage does not give all of them the same wrong id
  std::ifstream stream(file, std::ios::binary);
  std::optional<DatabaseId> said;
  Page page;
  for (unsigned count = 0; count < kMost; ++count) {
    if (!stream.read(reinterpret_cast<char*>(page.data()), page.size())) break;
    const DatabaseId id = database_of(page);
    // Pages with different ids are damaged, and not sealed with another key.
    if (is_of_key(id, key) || id != said.value_or(id)) return false;
    said = id;
  }
  return said.has_value();
}

}  // namespace s3oram
