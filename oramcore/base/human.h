// Numbers as people read them: three digits or so.
#pragma once

#include <cstdint>
#include <string>

namespace s3oram {

/// "31.2 MiB".
std::string human_size(std::uint64_t bytes);

/// "40 s", "3 min", "5 h" or "12 days"; at least "0 s".
std::string human_duration(double seconds);

}  // namespace s3oram
