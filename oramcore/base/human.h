// Numbers and names in the form in which people write and read them.
#pragma once

#include <cstdint>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// Reads "4096", "4K", "512M", "20GiB" or "1t" as bytes. Errors: usage (states the allowed range).
Result<std::uint64_t> parse_size(const std::string& text, std::uint64_t least = 0,
                                 std::uint64_t most = UINT64_MAX);

/// Returns "4K" or "512M": exact, in the largest unit that divides it.
std::string short_size(std::uint64_t bytes);

/// Returns a size such as "31.2 MiB", with about three digits.
std::string human_size(std::uint64_t bytes);

/// Returns an untrusted text in a form that is safe for a terminal: control characters become \xNN.
std::string printable(const std::string& text);

/// Does the same, but keeps line ends and tabs.
std::string printable_lines(const std::string& text);

/// Returns a word for a shell command that users can copy: special characters get a backslash.
std::string shell_word(const std::string& text);

/// Returns "40 s", "3 min", "5 h" or "12 days"; at least "0 s".
std::string human_duration(double seconds);

}  // namespace s3oram
