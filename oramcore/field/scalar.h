// A single product in GF(2^8), in constant time: no branch and no table.
#pragma once

#include <cstdint>

namespace s3oram::gf {

/// x^8 = x^4 + x^3 + x + 1.
inline constexpr unsigned kReduction = 0x1b;

constexpr std::uint8_t product(std::uint8_t a, std::uint8_t b) {
  unsigned sum = 0;
  unsigned power = a;  // a * x^bit
  for (int bit = 0; bit < 8; ++bit) {
    sum ^= power & (0u - ((b >> bit) & 1u));
    power = ((power << 1) & 0xff) ^ (kReduction & (0u - (power >> 7)));
  }
  return static_cast<std::uint8_t>(sum);
}

}  // namespace s3oram::gf
