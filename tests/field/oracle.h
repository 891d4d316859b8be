// GF(2^8) as NTL computes it, with which the field's own code is compared.
#pragma once

#include <NTL/GF2E.h>

#include <array>
#include <cstdint>
#include <memory>

#include "oramcore/base/bytes.h"

namespace s3oram::oracle {

/// Selects the field in NTL while it lives.
class Field {
 public:
  Field() : push_(modulus()) {}

 private:
  static NTL::GF2X modulus() {
    const std::uint8_t bits[2] = {0x1b, 0x01};  // x^8 + x^4 + x^3 + x + 1
    return NTL::GF2XFromBytes(bits, 2);
  }
  NTL::GF2EPush push_;
};

inline NTL::GF2E element(std::uint8_t byte) { return NTL::to_GF2E(NTL::GF2XFromBytes(&byte, 1)); }

inline std::uint8_t byte(const NTL::GF2E& element) {
  std::uint8_t result = 0;
  NTL::BytesFromGF2X(&result, rep(element), 1);
  return result;
}

/// All products, computed once by NTL.
inline std::uint8_t mul(std::uint8_t a, std::uint8_t b) {
  using Table = std::array<std::array<std::uint8_t, 256>, 256>;
  static const auto table = [] {
    const Field field;
    auto products = std::make_unique<Table>();
    for (unsigned i = 0; i < 256; ++i)
      for (unsigned j = 0; j < 256; ++j)
        (*products)[i][j] =
            byte(element(static_cast<std::uint8_t>(i)) * element(static_cast<std::uint8_t>(j)));
    return products;
  }();
  return (*table)[a][b];
}

/// sum += coefficient * row.
inline void multiply_add(std::uint8_t coefficient, ByteSpan row, MutableByteSpan sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] ^= mul(coefficient, row[i]);
}

}  // namespace s3oram::oracle
