// Parses and formats sizes, durations and names.
#include "oramcore/base/human.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <optional>
#include <string_view>

namespace s3oram {
namespace {

constexpr std::string_view kLetters = "KMGT";

std::optional<std::uint64_t> read_size(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  if (error != std::errc()) return std::nullopt;
  if (unit.empty()) return number;
  const std::size_t letter = kLetters.find(unit.front());
  unit.remove_prefix(1);
  if (letter == kLetters.npos || !(unit.empty() || unit == "B" || unit == "IB"))
    return std::nullopt;
  const unsigned shift = 10 * static_cast<unsigned>(letter + 1);
  if (number > UINT64_MAX >> shift) return std::nullopt;
  return number << shift;
}

std::string escape_all_but(std::string_view kept, const std::string& text) {
  std::string out;
  for (const unsigned char byte : text) {
    if (std::iscntrl(byte) != 0 && kept.find(static_cast<char>(byte)) == std::string_view::npos)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += static_cast<char>(byte);
  }
  return out;
}

}  // namespace

Result<std::uint64_t> parse_size(const std::string& text, std::uint64_t least, std::uint64_t most) {
  const auto size = read_size(text);
  if (size && *size >= least && *size <= most) return *size;
  const std::string range = most < UINT64_MAX
                                ? fmt::format("from {} to {}", short_size(least), short_size(most))
                                : fmt::format("of {} or more", short_size(least));
  return fail(Errc::usage, "{} is not a size {}", text, range);
}

std::string short_size(std::uint64_t bytes) {
  std::size_t letters = 0;
  for (; bytes >= 1024 && bytes % 1024 == 0 && letters < kLetters.size(); ++letters) bytes /= 1024;
  return std::to_string(bytes) + std::string(letters > 0 ? kLetters.substr(letters - 1, 1) : "");
}

std::string human_size(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 || value >= 100 ? 0 : 1, kUnits[unit]);
}

std::string printable(const std::string& text) { return escape_all_but("", text); }
std::string printable_lines(const std::string& text) { return escape_all_but("\n\t", text); }

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "%+,-./:=@_";
  std::string word;
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x80 && std::isalnum(code) == 0 && kPlain.find(byte) == std::string_view::npos)
      word += '\\';
    word += byte;
  }
  return word;
}

std::string human_duration(double seconds) {
  constexpr double kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  if (seconds < 2 * kMinute) return fmt::format("{:.0f} s", seconds < 0 ? 0 : seconds);
  if (seconds < 2 * kHour) return fmt::format("{:.0f} min", seconds / kMinute);
  if (seconds < 2 * kDay) return fmt::format("{:.0f} h", seconds / kHour);
  return fmt::format("{:.0f} days", seconds / kDay);
}

}  // namespace s3oram
