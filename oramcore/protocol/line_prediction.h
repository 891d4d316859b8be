// Predicts the speed of a volume over given lines from the cost of an access (docs/parameters.md).
#pragma once

#include <optional>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// Speeds in bytes per second; 0 means that a speed is not known, and costs no time.
struct Lines {
  double up = 0, down = 0;  // speed from this machine to all servers together, and back
  double between = 0;       // speed between each server and the others, either way
  double round_trip = 0;    // time from this machine to the servers and back, in seconds
};

inline constexpr double kMegabit = 1e6 / 8;  // one Mbit/s in bytes per second

/// Reads "5/29": Mbit/s up and down. Errors: usage.
Result<Lines> parse_line(const std::string& text);

/// The measured speeds of the lines, in bytes per second: 0 if measuring failed, std::nullopt if a
/// line was not to be measured.
struct MeasuredLines {
  std::optional<double> up, down, between;
  double round_trip = 0;  // time to the servers and back, in seconds
  std::string why;        // why measuring failed, as part of a sentence: "server 2 ..."
};
/// Returns the lines for predictions. A line that is too fast to matter gets a very high speed.
Lines lines_of(const MeasuredLines& measured);
/// Returns one or two lines of text for the user. They say how to give the speeds that could not be
/// measured.
std::string to_text(const MeasuredLines& measured);

/// The traffic and the computation of an access; includes evictions unless noted. Traffic is in
/// bytes.
struct AccessTraffic {
  std::uint64_t block = 0;              // what the access reads or writes
  double up = 0, down = 0;              // what the client sends and receives
  double first_up = 0, first_down = 0;  // the part before the access has ended
  double between = 0;                   // sent between the servers, by all of them together
  unsigned servers = 0;
  unsigned evict_every = 0;    // accesses from one eviction to the next; 0: no access waits for one
  double computing = 0;        // seconds at all machines together
  double first_computing = 0;  // the part without evictions
  double evicting = 0;         // the part in which servers send each other nothing
};

/// Returns the seconds from one access to the next when many are under way, so that the slowest
/// line is full or the machines are busy.
double seconds_between_accesses(const AccessTraffic& traffic, const Lines& lines);

struct LinePrediction {
  double photo_seconds = 0;  // time until 3 MB are durable; 0 if this machine's line is not known
  double bytes_per_second = 0;  // when a large file is written; 0 if no line is known
  double between_per_byte = 0;  // sent between servers, for each byte written
};
LinePrediction predict(const AccessTraffic& traffic, const Lines& lines);
/// Returns the prediction as text, one line for each number.
std::string to_text(const LinePrediction& prediction);

}  // namespace s3oram
