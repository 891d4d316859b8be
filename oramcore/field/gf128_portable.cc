// Carry-less products computed with ordinary multiplications, without tables and in constant time.
// Only every fifth bit of each factor is used at a time: these are 13 of 64 bits, and a sum of 13
// bits takes four bits, so no carry reaches the next bit that is used.
#include <cstring>

#include "oramcore/field/gf128_kernels.h"

namespace s3oram::gf128 {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr unsigned kStep = 5;

constexpr Wide every_fifth_bit(unsigned from) {
  Wide bits = 0;
  for (unsigned bit = from; bit < 128; bit += kStep) bits |= Wide{1} << bit;
  return bits;
}

constexpr Wide kBits[kStep] = {every_fifth_bit(0), every_fifth_bit(1), every_fifth_bit(2),
                               every_fifth_bit(3), every_fifth_bit(4)};

Wide carryless_product(std::uint64_t a, std::uint64_t b) {
  Wide product = 0;
  for (unsigned residue = 0; residue < kStep; ++residue) {
    Wide sum = 0;  // sum of the products whose bits lie at residue, modulo 5
    for (unsigned of_a = 0; of_a < kStep; ++of_a) {
      const unsigned of_b = (residue + kStep - of_a) % kStep;
      sum ^= Wide{a & static_cast<std::uint64_t>(kBits[of_a])} *
             (b & static_cast<std::uint64_t>(kBits[of_b]));
    }
    product |= sum & kBits[residue];
  }
  return product;
}

std::uint64_t high(Wide wide) { return static_cast<std::uint64_t>(wide >> 64); }

}  // namespace

void multiply_add_portable(const std::uint64_t* coefficients, const std::uint8_t* words,
                           std::size_t count, std::uint64_t* sum) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t* c = coefficients + 2 * i;
    std::uint64_t x[2];
    std::memcpy(x, words + 16 * i, sizeof x);
    const Wide low = carryless_product(c[0], x[0]), top = carryless_product(c[1], x[1]);
    const Wide middle = carryless_product(c[0] ^ c[1], x[0] ^ x[1]) ^ low ^ top;  // Karatsuba
    sum[0] ^= static_cast<std::uint64_t>(low);
    sum[1] ^= high(low) ^ static_cast<std::uint64_t>(middle);
    sum[2] ^= static_cast<std::uint64_t>(top) ^ high(middle);
    sum[3] ^= high(top);
  }
}

}  // namespace s3oram::gf128
