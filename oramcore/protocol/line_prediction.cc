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

double seconds(double bytes, double rate) { return rate > 0 ? bytes / rate : 0; }

/// Reads a positive number, all of `text`.
bool read_rate(std::string_view text, double& rate) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  rate *= kMegabit;
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(rate) &&
         rate > 0;
}

}  // namespace

Result<Lines> parse_line(const std::string& text) {
  Lines lines;
  const std::string_view whole = text;
  const std::size_t slash = whole.find('/');
  if (slash == std::string_view::npos || !read_rate(whole.substr(0, slash), lines.up) ||
      !read_rate(whole.substr(slash + 1), lines.down))
    return fail(Errc::usage, "a line is given as UP/DOWN in Mbit/s, such as 5/29, and not as {}",
                printable(text));
  return lines;
}

double seconds_between_accesses(const AccessTraffic& traffic, const Lines& lines) {
  // The servers share what they send together equally, each over its own line.
  const double each = traffic.servers > 0 ? traffic.between / traffic.servers : 0;
  return std::max({seconds(traffic.up, lines.up), seconds(traffic.down, lines.down),
                   seconds(each, lines.between)});
}

LinePrediction predict(const AccessTraffic& traffic, const Lines& lines) {
  const auto block = static_cast<double>(traffic.block);
  const double accesses = std::ceil(kPhoto / block);
  const double each = seconds_between_accesses(traffic, lines);
  // Evictions may come later.
  const double first =
      std::max(seconds(traffic.first_up, lines.up), seconds(traffic.first_down, lines.down));
  return {.photo_seconds = accesses * first,
          .bytes_per_second = each > 0 ? block / each : 0,
          .between_per_byte = traffic.between / block};
}

std::string to_text(const LinePrediction& prediction) {
  std::string text;
  if (prediction.photo_seconds > 0)
    text = fmt::format("On this line a photo of 3 MB is safe after about {:.1f} s.\n",
                       prediction.photo_seconds);
  if (prediction.bytes_per_second > 0)
    text += fmt::format("Over these lines a large file is written at about {}/s.\n",
                        human_size(static_cast<std::uint64_t>(prediction.bytes_per_second)));
  if (prediction.between_per_byte > 0)
    text += fmt::format("For each GB written the servers send each other about {:.0f} GB.\n",
                        prediction.between_per_byte);
  return text;
}

}  // namespace s3oram
