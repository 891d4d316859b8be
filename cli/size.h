// Sizes as people write them.
#pragma once

#include <cstdint>
#include <string>

#include "oramcore/base/error.h"
#include "oramcore/base/human.h"

namespace s3oram {

/// "4096", "4K" or "1M" in bytes. Errors: usage.
Result<std::uint64_t> parse_size(const std::string& text);

}  // namespace s3oram
