// The kernels for x86 processors with GFNI and AVX-512: vectors of 64 bytes.
#include <immintrin.h>

#include "oramcore/field/kernels_vector.h"

namespace s3oram::gf {
namespace {

/// The processor multiplies in this same field, so there is no table, and no address depends on a
/// coefficient.
struct Gfni {
  static constexpr std::size_t kAhead = 1024;
  using Vector = __m512i;
  using Tables = Vector;  // the coefficient in every byte
  using Nibbles = Vector;

  static Vector zero() { return _mm512_setzero_si512(); }
  static Vector load(const std::uint8_t* from) { return _mm512_loadu_si512(from); }
  static void store(std::uint8_t* to, Vector v) { _mm512_storeu_si512(to, v); }
  static Vector add(Vector a, Vector b) { return _mm512_xor_si512(a, b); }
  static Vector both(Vector a, Vector b) { return _mm512_and_si512(a, b); }

  static Tables tables(std::uint8_t coefficient) {
    return _mm512_set1_epi8(static_cast<char>(coefficient));
  }
  static Nibbles split(Vector v) { return v; }
  static Vector multiply(const Tables& coefficient, const Nibbles& data) {
    return _mm512_gf2p8mul_epi8(coefficient, data);
  }
};

}  // namespace

constexpr Kernels kGfniKernels{inner_product<Gfni>, matrix_product<Gfni>, sum<Gfni>,
                               bit_product<Gfni>};

}  // namespace s3oram::gf
