#include <immintrin.h>

#include "oramcore/field/kernels_vector.h"
#include "oramcore/field/nibble_tables.h"

namespace s3oram::gf {
namespace {

struct Avx2 {
  static constexpr std::size_t kAhead = 2048;
  using Vector = __m256i;
  struct Tables {
    Vector low, high;  // the 16 entries twice: a shuffle stays within its half
  };
  struct Nibbles {
    Vector low, high;
  };

  static Vector zero() { return _mm256_setzero_si256(); }
  static Vector load(const std::uint8_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const Vector*>(from));
  }
  static void store(std::uint8_t* to, Vector v) {
    _mm256_storeu_si256(reinterpret_cast<Vector*>(to), v);
  }
  static Vector add(Vector a, Vector b) { return _mm256_xor_si256(a, b); }
  static Vector both(Vector a, Vector b) { return _mm256_and_si256(a, b); }

  static Tables tables(std::uint8_t coefficient) {
    const NibbleTables& of = kNibbleTables.of[coefficient];
    return {twice(of.low), twice(of.high)};
  }
  static Nibbles split(Vector v) {
    const Vector nibble = _mm256_set1_epi8(0x0f);
    return {both(v, nibble), both(_mm256_srli_epi64(v, 4), nibble)};
  }
  static Vector multiply(const Tables& tables, const Nibbles& data) {
    return add(_mm256_shuffle_epi8(tables.low, data.low),
               _mm256_shuffle_epi8(tables.high, data.high));
  }

 private:
  static Vector twice(const std::uint8_t* from) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(from)));
  }
};

}  // namespace

constexpr Kernels kAvx2Kernels{inner_product<Avx2>, matrix_product<Avx2>, sum<Avx2>,
                               bit_product<Avx2>};

}  // namespace s3oram::gf
