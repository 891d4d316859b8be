// The kernel for 64-bit Arm processors with PMULL.
#include <arm_neon.h>

#include <cstring>

#include "oramcore/field/gf128_kernels.h"

namespace s3oram::gf128 {
namespace {

uint64x2_t product(std::uint64_t a, std::uint64_t b) {
  return vreinterpretq_u64_p128(vmull_p64(a, b));
}

}  // namespace

void multiply_add_pmull(const std::uint64_t* coefficients, const std::uint8_t* words,
                        std::size_t count, std::uint64_t* sum) {
  uint64x2_t low = vdupq_n_u64(0), middle = low, high = low;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t* c = coefficients + 2 * i;
    std::uint64_t x[2];
    std::memcpy(x, words + 16 * i, sizeof x);
    low = veorq_u64(low, product(c[0], x[0]));
    middle = veorq_u64(middle, veorq_u64(product(c[0], x[1]), product(c[1], x[0])));
    high = veorq_u64(high, product(c[1], x[1]));
  }
  sum[0] ^= vgetq_lane_u64(low, 0);
  sum[1] ^= vgetq_lane_u64(low, 1) ^ vgetq_lane_u64(middle, 0);
  sum[2] ^= vgetq_lane_u64(high, 0) ^ vgetq_lane_u64(middle, 1);
  sum[3] ^= vgetq_lane_u64(high, 1);
}

}  // namespace s3oram::gf128
