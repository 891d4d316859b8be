#include <tmmintrin.h>

#include "oramcore/field/kernels_vector.h"
#include "oramcore/field/nibble_tables.h"

namespace s3oram::gf {
namespace {

struct Ssse3 {
  static constexpr std::size_t kAhead = 2048;
  using Vector = __m128i;
  struct Tables {
    Vector low, high;
  };
  struct Nibbles {
    Vector low, high;
  };

  static Vector zero() { return _mm_setzero_si128(); }
  static Vector load(const std::uint8_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const Vector*>(from));
  }
  static void store(std::uint8_t* to, Vector v) {
    _mm_storeu_si128(reinterpret_cast<Vector*>(to), v);
  }
  static Vector add(Vector a, Vector b) { return _mm_xor_si128(a, b); }
  static Vector both(Vector a, Vector b) { return _mm_and_si128(a, b); }

  static Tables tables(std::uint8_t coefficient) {
    const NibbleTables& of = kNibbleTables.of[coefficient];
    return {_mm_load_si128(reinterpret_cast<const Vector*>(of.low)),
            _mm_load_si128(reinterpret_cast<const Vector*>(of.high))};
  }
  static Nibbles split(Vector v) {
    const Vector nibble = _mm_set1_epi8(0x0f);
    return {both(v, nibble), both(_mm_srli_epi64(v, 4), nibble)};
  }
  static Vector multiply(const Tables& tables, const Nibbles& data) {
    return add(_mm_shuffle_epi8(tables.low, data.low), _mm_shuffle_epi8(tables.high, data.high));
  }
};

}  // namespace

constexpr Kernels kSsse3Kernels{inner_product<Ssse3>, matrix_product<Ssse3>, sum<Ssse3>,
                                bit_product<Ssse3>};

}  // namespace s3oram::gf
