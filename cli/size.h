// Sizes as people write them.
#pragma once

#include <cstdint>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// "4096", "4K" or "1M" in bytes. Errors: usage.
Result<std::uint64_t> parse_size(const std::string& text);

/// "31.2 MiB": three digits or so, for people.
std::string human_size(std::uint64_t bytes);

}  // namespace s3oram
