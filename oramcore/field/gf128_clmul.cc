// The kernel for x86 processors with PCLMULQDQ: four products of 64 bits a word.
#include <immintrin.h>

#include "oramcore/field/gf128_kernels.h"

namespace s3oram::gf128 {

void multiply_add_clmul(const std::uint64_t* coefficients, const std::uint8_t* words,
                        std::size_t count, std::uint64_t* sum) {
  __m128i low = _mm_setzero_si128(), middle = low, other_middle = low, high = low;
  for (std::size_t i = 0; i < count; ++i) {
    const __m128i c = _mm_loadu_si128(reinterpret_cast<const __m128i*>(coefficients + 2 * i));
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(words + 16 * i));
    low = _mm_xor_si128(low, _mm_clmulepi64_si128(c, x, 0x00));
    middle = _mm_xor_si128(middle, _mm_clmulepi64_si128(c, x, 0x01));
    other_middle = _mm_xor_si128(other_middle, _mm_clmulepi64_si128(c, x, 0x10));
    high = _mm_xor_si128(high, _mm_clmulepi64_si128(c, x, 0x11));
  }
  middle = _mm_xor_si128(middle, other_middle);
  low = _mm_xor_si128(low, _mm_slli_si128(middle, 8));
  high = _mm_xor_si128(high, _mm_srli_si128(middle, 8));
  auto* to = reinterpret_cast<__m128i*>(sum);
  _mm_storeu_si128(to, _mm_xor_si128(_mm_loadu_si128(to), low));
  _mm_storeu_si128(to + 1, _mm_xor_si128(_mm_loadu_si128(to + 1), high));
}

}  // namespace s3oram::gf128
