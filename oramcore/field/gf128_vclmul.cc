// The kernel for x86 processors with VPCLMULQDQ and AVX-512: four words at a time.
#include <immintrin.h>

#include "oramcore/field/gf128_kernels.h"

namespace s3oram::gf128 {
namespace {

__m128i sum_of_lanes(__m512i v) {
  alignas(64) __m128i lanes[4];
  _mm512_store_si512(lanes, v);
  return _mm_xor_si128(_mm_xor_si128(lanes[0], lanes[1]), _mm_xor_si128(lanes[2], lanes[3]));
}

}  // namespace

void multiply_add_vclmul(const std::uint64_t* coefficients, const std::uint8_t* words,
                         std::size_t count, std::uint64_t* sum) {
  __m512i low = _mm512_setzero_si512(), middle = low, other_middle = low, high = low;
  for (std::size_t i = 0; i < count; i += 4) {
    // Fewer than four words may be left; the lanes after them are zero.
    const std::size_t left = count - i;
    const auto lanes = static_cast<__mmask8>(left < 4 ? (1u << 2 * left) - 1 : 0xff);
    const __m512i c = _mm512_maskz_loadu_epi64(lanes, coefficients + 2 * i);
    const __m512i x = _mm512_maskz_loadu_epi64(lanes, words + 16 * i);
    low = _mm512_xor_si512(low, _mm512_clmulepi64_epi128(c, x, 0x00));
    middle = _mm512_xor_si512(middle, _mm512_clmulepi64_epi128(c, x, 0x01));
    other_middle = _mm512_xor_si512(other_middle, _mm512_clmulepi64_epi128(c, x, 0x10));
    high = _mm512_xor_si512(high, _mm512_clmulepi64_epi128(c, x, 0x11));
  }
  const __m128i across = sum_of_lanes(_mm512_xor_si512(middle, other_middle));
  auto* to = reinterpret_cast<__m128i*>(sum);
  const __m128i first = _mm_xor_si128(sum_of_lanes(low), _mm_slli_si128(across, 8));
  const __m128i second = _mm_xor_si128(sum_of_lanes(high), _mm_srli_si128(across, 8));
  _mm_storeu_si128(to, _mm_xor_si128(_mm_loadu_si128(to), first));
  _mm_storeu_si128(to + 1, _mm_xor_si128(_mm_loadu_si128(to + 1), second));
}

}  // namespace s3oram::gf128
