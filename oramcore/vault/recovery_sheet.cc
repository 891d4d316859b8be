// Writes a text in lines that can be typed, and reads them again.
#include "oramcore/vault/recovery_sheet.h"

#include <fmt/ranges.h>
#include <sodium.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "oramcore/base/bytes.h"

namespace s3oram {
namespace {

constexpr std::string_view kLetters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
constexpr std::size_t kLineBytes = 25, kGroup = 5, kSum = 4, kDigest = 8;
constexpr unsigned kBits = 5, kMostLines = 9999;

std::string in_letters(ByteSpan bytes) {
  std::string text;
  unsigned held = 0, bits = 0;
  for (const std::uint8_t byte : bytes) {
    held = (held << 8 | byte) & 0xffff;
    for (bits += 8; bits >= kBits; bits -= kBits)
      text += kLetters[held >> (bits - kBits) & (kLetters.size() - 1)];
  }
  if (bits > 0) text += kLetters[held << (kBits - bits) & (kLetters.size() - 1)];
  return text;
}

/// Decodes letters; std::nullopt if one does not belong to the alphabet.
std::optional<Bytes> from_letters(std::string_view text) {
  Bytes bytes;
  unsigned held = 0, bits = 0;
  for (const char letter : text) {
    const auto value = kLetters.find(letter);
    if (value == std::string_view::npos) return std::nullopt;
    held = (held << kBits | static_cast<unsigned>(value)) & 0xffff;
    bits += kBits;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<std::uint8_t>(held >> bits));
  }
  return bytes;
}

Bytes digest(const std::string& text) {
  Bytes sum(crypto_generichash_BYTES);
  crypto_generichash(sum.data(), sum.size(), as_bytes(text).data(), text.size(), nullptr, 0);
  return sum;
}

std::string checksum(unsigned number, unsigned of, std::string_view letters) {
  const Bytes sum = digest(fmt::format("s3oramfs sheet {}/{} {}", number, of, letters));
  return in_letters(sum).substr(0, kSum);
}

/// A line as it was typed.
struct TypedLine {
  unsigned number = 0, of = 0;
  std::string letters;  // without the checksum; empty if that is wrong
};

char as_meant(char c) {
  if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return c == 'O' ? '0' : c == 'I' || c == 'L' ? '1' : c;
}

std::optional<unsigned> number_in(std::string_view text) {
  unsigned number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || number == 0 ||
      number > kMostLines)
    return std::nullopt;
  return number;
}

std::optional<TypedLine> parse_line(const std::string& text) {
  std::istringstream words(text);
  std::string head, letters;
  words >> head;
  const auto slash = head.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const auto number = number_in(std::string_view(head).substr(0, slash));
  const auto of = number_in(std::string_view(head).substr(slash + 1));
  if (!number || !of || *number > *of) return std::nullopt;
  for (std::string word; words >> word;)
    for (const char c : word) letters += as_meant(c);
  TypedLine line{*number, *of, {}};
  if (letters.size() <= kSum) return line;
  const std::string sum = letters.substr(letters.size() - kSum);
  letters.resize(letters.size() - kSum);
  if (checksum(line.number, line.of, letters) == sum) line.letters = letters;
  return line;
}

std::vector<TypedLine> parse_lines(const std::string& text) {
  std::vector<TypedLine> lines;
  std::istringstream in(text);
  for (std::string each; std::getline(in, each);)
    if (auto line = parse_line(each)) lines.push_back(std::move(*line));
  return lines;
}

tl::unexpected<Error> incomplete(const std::filesystem::path& path,
                                 const std::set<unsigned>& mistyped,
                                 const std::set<unsigned>& missing) {
  std::string what;
  if (!mistyped.empty()) what = fmt::format("not as printed: line {}", fmt::join(mistyped, ", "));
  if (!missing.empty())
    what += fmt::format("{}missing: line {}", what.empty() ? "" : "; ", fmt::join(missing, ", "));
  return fail(Errc::damaged_vault, "{}: {}", path.string(), what);
}

}  // namespace

std::vector<std::string> sheet_lines(const std::string& text) {
  Bytes content(text.begin(), text.end());
  const Bytes sum = digest(text);
  content.insert(content.end(), sum.begin(), sum.begin() + kDigest);
  const auto of = static_cast<unsigned>((content.size() + kLineBytes - 1) / kLineBytes);
  std::vector<std::string> lines;
  for (unsigned number = 1; number <= of; ++number) {
    const std::size_t at = (number - 1) * kLineBytes;
    const std::string letters =
        in_letters(ByteSpan(content).subspan(at, std::min(kLineBytes, content.size() - at)));
    std::string line = fmt::format("{}/{} ", number, of);
    for (std::size_t i = 0; i < letters.size(); i += kGroup)
      line += " " + letters.substr(i, kGroup);
    lines.push_back(line + " " + checksum(number, of, letters));
  }
  sodium_memzero(content.data(), content.size());
  return lines;
}

bool is_sheet(const std::string& text) { return !parse_lines(text).empty(); }

Result<std::string> read_sheet(const std::string& text, const std::filesystem::path& path) {
  std::map<unsigned, std::string> found;
  std::set<unsigned> mistyped, missing;
  // The number in a mistyped line may be wrong, so only a sound line says how many lines there are.
  unsigned of = 0;
  for (const TypedLine& line : parse_lines(text)) {
    if (line.letters.empty()) {
      mistyped.insert(line.number);
      continue;
    }
    const auto [former, fresh] = found.emplace(line.number, line.letters);
    if ((of != 0 && of != line.of) || (!fresh && former->second != line.letters))
      return fail(Errc::damaged_vault, "{}: line {} belongs to another sheet", path.string(),
                  line.number);
    of = line.of;
  }
  std::erase_if(mistyped, [&](unsigned number) { return found.contains(number); });
  for (unsigned number = 1; number <= of; ++number)
    if (!found.contains(number) && !mistyped.contains(number)) missing.insert(number);
  if (!mistyped.empty() || !missing.empty()) return incomplete(path, mistyped, missing);
  Bytes content;
  for (const auto& [number, letters] : found) {
    const auto bytes = from_letters(letters);
    if (!bytes) return incomplete(path, {number}, {});
    content.insert(content.end(), bytes->begin(), bytes->end());
  }
  const bool whole = content.size() >= kDigest;
  const std::string out(content.begin(), content.end() - (whole ? kDigest : 0));
  if (whole && std::equal(content.end() - kDigest, content.end(), digest(out).begin())) return out;
  return fail(Errc::damaged_vault, "{}: its lines belong to more than one sheet", path.string());
}

}  // namespace s3oram
