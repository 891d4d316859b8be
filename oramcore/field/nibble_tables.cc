// Computes the nibble tables at compile time.
#include "oramcore/field/nibble_tables.h"

#include "oramcore/field/scalar.h"

namespace s3oram::gf {
namespace {

constexpr AllNibbleTables compute() {
  AllNibbleTables tables{};
  for (unsigned c = 0; c < 256; ++c)
    for (unsigned n = 0; n < 16; ++n) {
      const auto coefficient = static_cast<std::uint8_t>(c);
      tables.of[c].low[n] = product(coefficient, static_cast<std::uint8_t>(n));
      tables.of[c].high[n] = product(coefficient, static_cast<std::uint8_t>(n << 4));
    }
  return tables;
}

}  // namespace

constexpr AllNibbleTables kNibbleTables = compute();

}  // namespace s3oram::gf
