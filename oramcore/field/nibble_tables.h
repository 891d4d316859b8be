// Multiplication by a fixed c is linear, so c * byte = c * low nibble + c * high nibble: two
// lookups in tables of 16 bytes, which a byte shuffle performs for a whole vector.
#pragma once

#include <cstdint>

namespace s3oram::gf {

struct alignas(32) NibbleTables {
  std::uint8_t low[16];   // c * n
  std::uint8_t high[16];  // c * (n << 4)
};

/// By coefficient. 8 KiB in total, so that they stay in L1.
struct AllNibbleTables {
  NibbleTables of[256];
};
extern const AllNibbleTables kNibbleTables;

}  // namespace s3oram::gf
