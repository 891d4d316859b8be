// Reads the lines of a record. The lines of one request become one RecordedRequest.
#include "cli/record_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

#include "oramcore/base/system_error.h"
#include "oramcore/oram/geometry.h"

namespace s3oram {
namespace {

using Cause = RecordedRequest::Cause;

constexpr std::string_view kFirstLine = "# s3oramfs record 1";
constexpr std::string_view kColumns = "time,request,cause,operation,bucket,slot,slots";
constexpr std::string_view kLeftOut = " lines left out";

struct Line {
  std::uint64_t time = 0, request = 0, bucket = 0, slot = 0, slots = 0;
  Cause cause = Cause::access;
  bool writes = false;
};

bool take_number(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool take_cause(std::string_view text, Cause& cause) {
  constexpr std::array<std::pair<std::string_view, Cause>, 4> kNames{{{"access", Cause::access},
                                                                      {"root", Cause::root},
                                                                      {"eviction", Cause::eviction},
                                                                      {"upkeep", Cause::upkeep}}};
  for (const auto& [name, each] : kNames) {
    if (text != name) continue;
    cause = each;
    return true;
  }
  return false;
}

bool take_line(std::string_view text, Line& line) {
  std::array<std::string_view, 7> fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::size_t end = i + 1 < fields.size() ? text.find(',') : text.size();
    if (end == std::string_view::npos) return false;
    fields[i] = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  line.writes = fields[3] == "write";
  return take_number(fields[0], line.time) && take_number(fields[1], line.request) &&
         take_cause(fields[2], line.cause) && (line.writes || fields[3] == "read") &&
         take_number(fields[4], line.bucket) && line.bucket > 0 &&
         line.bucket < BucketIndex{2} << kMaxHeight && take_number(fields[5], line.slot) &&
         take_number(fields[6], line.slots);
}

/// Returns the bucket's position in its level, from left to right as the tree is drawn. The first
/// edge from the root is the lowest bit.
double place_of(BucketIndex bucket, unsigned level) {
  double place = 0, half = 0.5;
  for (unsigned bit = 0; bit < level; ++bit, half /= 2) place += half * ((bucket >> bit) & 1);
  return place;
}

void add_to(RecordedRequest& request, const Line& line) {
  const unsigned level = level_of(line.bucket);
  request.slots += line.slots;
  if (level < request.level) return;
  request.level = level;
  request.place = place_of(line.bucket, level);
}

}  // namespace

Result<Record> parse_record(std::istream& in, const std::string& name) {
  Record record;
  std::string text;
  if (!std::getline(in, text) || !text.starts_with(kFirstLine))
    return fail(Errc::usage, "{}: not a record of s3oramfs-serverd --record", name);
  Line before;
  for (std::uint64_t number = 2; std::getline(in, text); ++number) {
    if (in.eof() && !text.empty() && text.front() != '#') break;  // still being written
    if (text.empty() || text == kColumns) continue;
    if (text.front() == '#') {
      std::uint64_t lines = 0;
      if (text.ends_with(kLeftOut) &&
          take_number(std::string_view(text).substr(2, text.size() - 2 - kLeftOut.size()), lines))
        record.left_out += lines;
      continue;
    }
    Line line;
    if (!take_line(text, line))
      return fail(Errc::usage, "{}: line {} is not a line of a record", name, number);
    const bool same = !record.requests.empty() && line.request == before.request &&
                      line.cause == before.cause && line.writes == before.writes;
    if (!same)
      record.requests.push_back({.time = static_cast<double>(line.time) / 1e6,
                                 .cause = line.cause,
                                 .writes = line.writes});
    add_to(record.requests.back(), line);
    before = line;
  }
  return record;
}

Result<Record> read_record(const std::filesystem::path& file) {
  errno = 0;
  std::ifstream in(file);
  if (!in) return system_failure(errno, "{}", file.string());
  return parse_record(in, file.string());
}

}  // namespace s3oram
