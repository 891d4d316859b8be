#include <arm_neon.h>

#include "oramcore/field/kernels_vector.h"
#include "oramcore/field/nibble_tables.h"

namespace s3oram::gf {
namespace {

struct Neon {
  static constexpr std::size_t kAhead = 2048;
  using Vector = uint8x16_t;
  struct Tables {
    Vector low, high;
  };
  struct Nibbles {
    Vector low, high;
  };

  static Vector zero() { return vdupq_n_u8(0); }
  static Vector load(const std::uint8_t* from) { return vld1q_u8(from); }
  static void store(std::uint8_t* to, Vector v) { vst1q_u8(to, v); }
  static Vector add(Vector a, Vector b) { return veorq_u8(a, b); }
  static Vector both(Vector a, Vector b) { return vandq_u8(a, b); }

  static Tables tables(std::uint8_t coefficient) {
    const NibbleTables& of = kNibbleTables.of[coefficient];
    return {vld1q_u8(of.low), vld1q_u8(of.high)};
  }
  static Nibbles split(Vector v) { return {both(v, vdupq_n_u8(0x0f)), vshrq_n_u8(v, 4)}; }
  static Vector multiply(const Tables& tables, const Nibbles& data) {
    return add(vqtbl1q_u8(tables.low, data.low), vqtbl1q_u8(tables.high, data.high));
  }
};

}  // namespace

constexpr Kernels kNeonKernels{inner_product<Neon>, matrix_product<Neon>, sum<Neon>,
                               bit_product<Neon>};

}  // namespace s3oram::gf
