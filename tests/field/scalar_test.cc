// Compares all products, inverses and nibble tables of GF(2^8) with NTL.
#include <gtest/gtest.h>

#include "oramcore/field/gf256.h"
#include "oramcore/field/nibble_tables.h"
#include "tests/field/oracle.h"

namespace s3oram::gf {
namespace {

TEST(Scalar, EveryProductIsNtls) {
  for (unsigned a = 0; a < 256; ++a)
    for (unsigned b = 0; b < 256; ++b) {
      const auto x = static_cast<std::uint8_t>(a);
      const auto y = static_cast<std::uint8_t>(b);
      ASSERT_EQ(mul(x, y), oracle::mul(x, y)) << a << " * " << b;
    }
}

TEST(Scalar, EveryInverseIsNtls) {
  const oracle::Field field;
  for (unsigned a = 1; a < 256; ++a) {
    const auto x = static_cast<std::uint8_t>(a);
    ASSERT_EQ(inverse(x), oracle::byte(NTL::inv(oracle::element(x)))) << a;
    ASSERT_EQ(mul(x, inverse(x)), 1) << a;
  }
}

TEST(Scalar, EveryNibbleTableIsNtls) {
  for (unsigned c = 0; c < 256; ++c)
    for (unsigned b = 0; b < 256; ++b) {
      const NibbleTables& tables = kNibbleTables.of[c];
      ASSERT_EQ(tables.low[b & 15] ^ tables.high[b >> 4],
                oracle::mul(static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(b)));
    }
}

}  // namespace
}  // namespace s3oram::gf
