// GF(2^8) = GF(2)[x] / (x^8 + x^4 + x^3 + x + 1), the field of the whole scheme: a byte is a field
// element, and addition is XOR. (The paper's F_p only needs to be a finite field with more than l
// elements.) The GFNI instructions implement the same polynomial.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "oramcore/base/bytes.h"

namespace s3oram::gf {

std::uint8_t mul(std::uint8_t a, std::uint8_t b);
/// Returns the multiplicative inverse; `a` must not be 0.
std::uint8_t inverse(std::uint8_t a);

/// out ^= coefficient * in, element by element. Both have the same length and must not overlap.
void multiply_add(std::uint8_t coefficient, ByteSpan in, MutableByteSpan out);

/// The server's retrieval kernel: out ^= sum_i coefficients[i] * rows[i].
/// rows[i] points to out.size() bytes. Reads every row once, at memory speed.
void inner_product(ByteSpan coefficients, std::span<const std::uint8_t* const> rows,
                   MutableByteSpan out);

/// The eviction kernel: for each k, outs[k] ^= sum_i matrix[i * outs.size() + k] * rows[i] (a row
/// vector times a rows.size() x outs.size() matrix, like I_h in Subroutine 3), for `length` bytes
/// per row.
void matrix_product(ByteSpan matrix, std::span<const std::uint8_t* const> rows,
                    std::span<std::uint8_t* const> outs, std::size_t length);

// Operations in the subfield GF(2), where a row either counts or not. The time depends on which
// rows count, so this must not be a secret from the party that computes.

/// out ^= the sum of all rows. rows[i] points to out.size() bytes. Runs at memory speed.
void sum(std::span<const std::uint8_t* const> rows, MutableByteSpan out);

/// Returns the bytes of a row of a bit matrix with this many columns.
constexpr std::size_t bit_row(std::size_t columns) { return (columns + 7) / 8; }

/// For each j, outs[j] ^= the sum of the rows[i] for which bit i of row j of `bits` is set, for
/// `length` bytes per row. `bits` is a matrix of outs.size() rows, bit_row(rows.size()) bytes each,
/// lowest bit first. Bits beyond the last column are ignored.
void bit_product(ByteSpan bits, std::span<const std::uint8_t* const> rows,
                 std::span<std::uint8_t* const> outs, std::size_t length);

/// The instruction sets for which there are kernels. Chosen once at run time; use() is for tests
/// and benchmarks (false if this machine does not support the kernel). gfni uses vectors of 64
/// bytes (AVX-512).
enum class Kernel { portable, ssse3, avx2, gfni, neon };
/// All kernels. If a machine supports several, the later one is better.
inline constexpr Kernel kKernels[] = {Kernel::portable, Kernel::ssse3, Kernel::avx2, Kernel::gfni,
                                      Kernel::neon};
Kernel kernel();
bool use(Kernel kernel);
std::string_view name(Kernel kernel);

}  // namespace s3oram::gf
