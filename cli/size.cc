#include "cli/size.h"

#include <charconv>

namespace s3oram {

Result<std::uint64_t> parse_size(const std::string& text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  const int shift = suffix.empty()  ? 0
                    : suffix == "K" ? 10
                    : suffix == "M" ? 20
                    : suffix == "G" ? 30
                    : suffix == "T" ? 40
                                    : -1;
  if (error != std::errc() || shift < 0 || number > (UINT64_MAX >> shift))
    return fail(Errc::usage, "{} is not a size: write 4096, 4K, 1M or 20G", text);
  return number << shift;
}

}  // namespace s3oram
