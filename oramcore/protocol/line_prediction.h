// What to expect of a volume over the lines there are, from the cost of an access
// (docs/parameters.md).
#pragma once

#include <optional>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// Bytes a second; 0 if it is not known, which takes no time.
struct Lines {
  double up = 0, down = 0;  // from this machine to all servers together, and back
  double between = 0;       // of each server, to the others and from them
  double round_trip = 0;    // from this machine to the servers and back, in seconds
};

inline constexpr double kMegabit = 1e6 / 8;  // a second, in bytes a second

/// Reads "5/29": Mbit/s up and down. Errors: usage.
Result<Lines> parse_line(const std::string& text);

/// What measuring the lines has found, in bytes a second; 0 where it has found nothing,
/// std::nullopt where it was not asked.
struct MeasuredLines {
  std::optional<double> up, down, between;
  double round_trip = 0;  // to the servers and back, in seconds
  std::string why;        // something was not found: "server 2 ...", in a sentence
};
/// Returns what predictions need of them. A line that is too fast to matter is as fast as any.
Lines lines_of(const MeasuredLines& measured);
/// In words, a line or two; says how to give what was not found.
std::string to_text(const MeasuredLines& measured);

/// What an access moves, in bytes, and what it computes, evictions included unless it is said.
struct AccessTraffic {
  std::uint64_t block = 0;              // that it reads or writes
  double up = 0, down = 0;              // of the client
  double first_up = 0, first_down = 0;  // of those, before the access has ended
  double between = 0;                   // between the servers, sent by all together
  unsigned servers = 0;
  unsigned evict_every = 0;  // accesses from one eviction to the next; 0: none waits for evictions
  double computing = 0;      // seconds, with all machines taken together
  double first_computing = 0;  // of those, without evictions
  double evicting = 0;         // of those, while servers send each other nothing
};

/// Returns the seconds from one access to the next when many are under way: the slowest line is
/// full, or the machines are busy.
double seconds_between_accesses(const AccessTraffic& traffic, const Lines& lines);

struct LinePrediction {
  double photo_seconds = 0;     // until 3 MB are durable; 0 if this machine's line is not known
  double bytes_per_second = 0;  // of a large file that is written; 0 if no line is known
  double between_per_byte = 0;  // between servers, for each byte written
};
LinePrediction predict(const AccessTraffic& traffic, const Lines& lines);
/// In words, a line each.
std::string to_text(const LinePrediction& prediction);

}  // namespace s3oram
