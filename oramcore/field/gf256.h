// GF(2^8) = GF(2)[x] / (x^8 + x^4 + x^3 + x + 1), the field of the whole scheme: a byte is a field
// element, addition is XOR. (The paper's F_p needs only a finite field with more than l elements.)
// The polynomial is the one that the GFNI instructions implement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "oramcore/base/bytes.h"

namespace s3oram::gf {

std::uint8_t mul(std::uint8_t a, std::uint8_t b);
/// The multiplicative inverse; `a` must not be 0.
std::uint8_t inverse(std::uint8_t a);

/// out ^= coefficient * in, element by element. Same length; `in` and `out` do not overlap.
void multiply_add(std::uint8_t coefficient, ByteSpan in, MutableByteSpan out);

/// The server's retrieval kernel: out ^= sum_i coefficients[i] * rows[i].
/// rows[i] points to out.size() bytes. Reads every row once, at memory speed.
void inner_product(ByteSpan coefficients, std::span<const std::uint8_t* const> rows,
                   MutableByteSpan out);

/// The eviction kernel: for each k, outs[k] ^= sum_i matrix[i * outs.size() + k] * rows[i]
/// (a row vector times a rows.size() x outs.size() matrix, as I_h is in Subroutine 3), for
/// `length` bytes a row.
void matrix_product(ByteSpan matrix, std::span<const std::uint8_t* const> rows,
                    std::span<std::uint8_t* const> outs, std::size_t length);

// Of the subfield GF(2): rows count, or do not. The time depends on which: they must be this
// party's to know.

/// out ^= the sum of all rows. rows[i] points to out.size() bytes. At memory speed.
void sum(std::span<const std::uint8_t* const> rows, MutableByteSpan out);

/// Bytes of a row of a bit matrix with so many columns.
constexpr std::size_t bit_row(std::size_t columns) { return (columns + 7) / 8; }

/// For each j, outs[j] ^= the sum of the rows[i] for which bit i of row j of `bits` is set, for
/// `length` bytes a row: a matrix of outs.size() rows, bit_row(rows.size()) bytes each, lowest bit
/// first. Bits beyond the last column mean nothing.
void bit_product(ByteSpan bits, std::span<const std::uint8_t* const> rows,
                 std::span<std::uint8_t* const> outs, std::size_t length);

/// The instruction sets the kernels have. Chosen once at run time; `use` is for tests and
/// benchmarks (false if this machine lacks it). gfni comes with vectors of 64 bytes (AVX-512).
enum class Kernel { portable, ssse3, avx2, gfni, neon };
/// All of them; the later one is the better one where a machine has both.
inline constexpr Kernel kKernels[] = {Kernel::portable, Kernel::ssse3, Kernel::avx2, Kernel::gfni,
                                      Kernel::neon};
Kernel kernel();
bool use(Kernel kernel);
std::string_view name(Kernel kernel);

}  // namespace s3oram::gf
