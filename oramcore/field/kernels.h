// The kernels of GF(2^8), one set for each instruction set. gf256.cc selects one at run time.
//
// Files that are compiled with instruction set flags use nothing except plain pointers and their
// own definitions. Otherwise the linker might keep, for the whole program, the copy of a shared
// inline function that was compiled with those flags, and an older machine could not run it.
//
// No kernel branches on a coefficient or on data, not even on 0, because they are secret shares.
// The only address that depends on them is a coefficient's row in the nibble tables. (In the sums
// over GF(2), addresses depend on the bits. These belong to the party itself, which may know them.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace s3oram::gf {

struct Kernels {
  /// out[0..length) ^= sum_i coefficients[i] * rows[i], i < count.
  void (*inner_product)(const std::uint8_t* coefficients, const std::uint8_t* const* rows,
                        std::size_t count, std::uint8_t* out, std::size_t length);
  /// outs[k][0..length) ^= sum_i matrix[i * columns + k] * rows[i], i < count, k < columns.
  void (*matrix_product)(const std::uint8_t* matrix, const std::uint8_t* const* rows,
                         std::size_t count, std::uint8_t* const* outs, std::size_t columns,
                         std::size_t length);
  /// out[0..length) ^= sum_i rows[i], i < count.
  void (*sum)(const std::uint8_t* const* rows, std::size_t count, std::uint8_t* out,
              std::size_t length);
  /// outs[j][0..length) ^= the sum of the rows[i] for which bit i of row j of the matrix is set, i
  /// < count, j < outs_count. A row of the matrix is a whole number of bytes, lowest bit first.
  void (*bit_product)(const std::uint8_t* bits, const std::uint8_t* const* rows, std::size_t count,
                      std::uint8_t* const* outs, std::size_t outs_count, std::size_t length);
};

extern const Kernels kPortableKernels;
extern const Kernels kSsse3Kernels;  // x86 only
extern const Kernels kAvx2Kernels;   // x86 only
extern const Kernels kGfniKernels;   // x86 only
extern const Kernels kNeonKernels;   // 64-bit Arm only

}  // namespace s3oram::gf
