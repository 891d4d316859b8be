// The parties of a volume, by number.
#pragma once

#include <cstdint>

namespace s3oram {

/// 0 is the client; 1..l are the servers (and their evaluation points).
using Party = std::uint8_t;
constexpr Party kClient = 0;

}  // namespace s3oram
