// Numbers and names as people write them, and read them: of numbers three digits or so.
#pragma once

#include <cstdint>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// "4096", "4K", "512M", "20GiB" or "1t" in bytes. Errors: usage (it says from what to what).
Result<std::uint64_t> parse_size(const std::string& text, std::uint64_t least = 0,
                                 std::uint64_t most = UINT64_MAX);

/// "4K", "512M": whole, in the largest unit.
std::string short_size(std::uint64_t bytes);

/// "31.2 MiB".
std::string human_size(std::uint64_t bytes);

/// A name, or whatever else anybody may have written, for a terminal: control characters as \xNN.
std::string printable(const std::string& text);

/// The same of a text of several lines, and columns.
std::string printable_lines(const std::string& text);

/// A word of a command that is shown to be copied: what the shell would take for something else
/// stands behind a backslash.
std::string shell_word(const std::string& text);

/// "40 s", "3 min", "5 h" or "12 days"; at least "0 s".
std::string human_duration(double seconds);

}  // namespace s3oram
