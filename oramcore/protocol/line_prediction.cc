// The arithmetic of full lines.
#include "oramcore/protocol/line_prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "oramcore/base/human.h"

namespace s3oram {
namespace {

constexpr double kPhoto = 3e6;
// A query and a root write go to the servers, and from there to another server.
constexpr double kRoundTrips = 4;

double seconds(double bytes, double rate) { return rate > 0 ? bytes / rate : 0; }

/// Reads a positive number that makes up all of `text`.
bool read_rate(std::string_view text, double& rate) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  rate *= kMegabit;
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(rate) &&
         rate > 0;
}

/// 1 Gbit/s; the machines are slower than such a line.
constexpr double kFast = 1000 * kMegabit, kAsFastAsAny = 1e12;

double rate_of(const std::optional<double>& measured) {
  const double rate = measured.value_or(0);
  return rate < kFast ? rate : kAsFastAsAny;
}

std::string megabits(double rate) {
  if (rate >= kFast) return "over 1000";
  const double megabits = rate / kMegabit;
  return fmt::format("{:.{}f}", megabits, megabits < 10 ? 1 : 0);
}

/// Describes this machine's line.
std::string words_of_line(double up, double down) {
  if (up == 0 || down == 0) return "not measured";
  if (up >= kFast && down >= kFast) return "fast enough not to matter";
  return fmt::format("{} Mbit/s up, {} down", megabits(up), megabits(down));
}

std::string words_of_between(double rate) {
  if (rate == 0) return "not measured";
  if (rate >= kFast) return "fast enough not to matter";
  return fmt::format("{} Mbit/s", megabits(rate));
}

}  // namespace

Lines lines_of(const MeasuredLines& measured) {
  return {.up = rate_of(measured.up),
          .down = rate_of(measured.down),
          .between = rate_of(measured.between),
          .round_trip = measured.round_trip};
}

std::string to_text(const MeasuredLines& measured) {
  std::string text, options;
  const bool has_line = measured.up && measured.down;
  if (has_line) text = "Line: " + words_of_line(*measured.up, *measured.down);
  if (measured.between)
    text += (has_line ? "; between servers: " : "Between servers: ") +
            words_of_between(*measured.between);
  if (text.empty()) return text;
  text += ".\n";
  if (has_line && (*measured.up == 0 || *measured.down == 0)) options = "--line UP/DOWN";
  if (measured.between == 0.0)
    options += (options.empty() ? "" : " and ") + std::string("--between RATE");
  if (!options.empty())
    text += fmt::format(
        "Lines that were not measured count as fast ({}): give their speed with {} of s3oramfs "
        "init.\n",
        measured.why.empty() ? "no answers as expected" : measured.why, options);
  return text;
}

Result<Lines> parse_line(const std::string& text) {
  Lines lines;
  const std::string_view whole = text;
  const std::size_t slash = whole.find('/');
  if (slash == std::string_view::npos || !read_rate(whole.substr(0, slash), lines.up) ||
      !read_rate(whole.substr(slash + 1), lines.down))
    return fail(Errc::usage, "give a line as UP/DOWN in Mbit/s, such as 5/29, not as {}",
                printable(text));
  return lines;
}

double seconds_between_accesses(const AccessTraffic& traffic, const Lines& lines) {
  // Each server sends an equal part of the traffic between servers, over its own line.
  const double each = traffic.servers > 0 ? traffic.between / traffic.servers : 0;
  // Only one eviction runs at a time, so its other work follows its sending.
  const double between = seconds(each, lines.between);
  return std::max({seconds(traffic.up, lines.up), seconds(traffic.down, lines.down),
                   between > 0 ? between + traffic.evicting : 0, traffic.computing});
}

LinePrediction predict(const AccessTraffic& traffic, const Lines& lines) {
  const auto block = static_cast<double>(traffic.block);
  const double accesses = std::ceil(kPhoto / block);
  const double each = seconds_between_accesses(traffic, lines);
  const double first = std::max({seconds(traffic.first_up, lines.up),
                                 seconds(traffic.first_down, lines.down), traffic.first_computing});
  double photo = accesses * first;
  // The root has room for the accesses of two evictions. On average half of the first group is
  // already taken; accesses beyond the rest wait for evictions.
  const double every = traffic.evict_every, late = accesses - 1.5 * every;
  if (every > 0 && late > 0)
    photo = std::max(photo, 0.5 * every * first + std::ceil(late / every) * every * each);
  const bool is_known = lines.up > 0 && lines.down > 0, is_any = is_known || lines.between > 0;
  return {.photo_seconds = is_known ? photo + kRoundTrips * lines.round_trip : 0,
          .bytes_per_second = is_any && each > 0 ? block / each : 0,
          .between_per_byte = traffic.between / block};
}

std::string to_text(const LinePrediction& prediction) {
  std::string text;
  if (prediction.photo_seconds > 0)
    text = fmt::format("On this line a photo of 3 MB is safe after about {:.{}f} s.\n",
                       prediction.photo_seconds, prediction.photo_seconds < 1 ? 2 : 1);
  if (prediction.bytes_per_second > 0)
    text += fmt::format("Over these lines a large file is written at about {}/s.\n",
                        human_size(static_cast<std::uint64_t>(prediction.bytes_per_second)));
  if (prediction.between_per_byte > 0)
    text += fmt::format("For each GB written the servers send each other about {:.0f} GB.\n",
                        prediction.between_per_byte);
  return text;
}

}  // namespace s3oram
