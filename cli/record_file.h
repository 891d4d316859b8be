// Reading a record that a server has written (s3oramfs-serverd --record; docs/formats.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <vector>

#include "oramcore/base/error.h"

namespace s3oram {

/// What a server did for one request, or for one step of an eviction.
struct RecordedRequest {
  enum class Cause { access, root, eviction, upkeep };
  double time = 0;  // s since 1970
  Cause cause = Cause::access;
  bool writes = false;
  unsigned level = 0;       // of the deepest bucket of the tree
  double place = 0;         // of that bucket among those of its level, from 0 to 1
  std::uint64_t slots = 0;  // read or written
};

struct Record {
  std::vector<RecordedRequest> requests;
  std::uint64_t left_out = 0;  // lines that the server had no room for
};

/// `name` is for messages. Errors: usage (it is not a record, naming the line).
Result<Record> parse_record(std::istream& in, const std::string& name);
/// Errors: also failed (it cannot be read).
Result<Record> read_record(const std::filesystem::path& file);

}  // namespace s3oram
