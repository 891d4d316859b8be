// Reads a record that a server has written (s3oramfs-serverd --record; docs/formats.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <vector>

#include "oramcore/base/error.h"

namespace s3oram {

/// The reads and writes of a server for one request, or for one step of an eviction.
struct RecordedRequest {
  enum class Cause { access, root, eviction, upkeep };
  double time = 0;  // s since 1970
  Cause cause = Cause::access;
  bool writes = false;
  unsigned level = 0;       // level of the deepest bucket in the request
  double place = 0;         // position of that bucket in its level, from 0 to 1
  std::uint64_t slots = 0;  // read or written
};

struct Record {
  std::vector<RecordedRequest> requests;
  std::uint64_t left_out = 0;  // lines for which the server had no room
};

/// Parses a record. `name` is used in messages. Errors: usage (not a record; names the line).
Result<Record> parse_record(std::istream& in, const std::string& name);
/// Reads and parses a record. Errors: those of parse_record(), failed (the file cannot be read).
Result<Record> read_record(const std::filesystem::path& file);

}  // namespace s3oram
