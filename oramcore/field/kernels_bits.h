// Sums over GF(2), for any vector unit `V` that has Vector, load(p), store(p, v) and add(a, b).
// Coefficients are bits: a row either counts or not. The machine that computes knows these bits.
// Everything here is local to the including file: see kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace s3oram::gf {
namespace {

// --- Bit matrix product -------------------------------------------------------------------------
// Uses the method of four Russians: for each eight rows, all 256 sums are computed, for a tile of
// columns small enough that they fit into L2; each byte of the matrix then selects one of them.

constexpr std::size_t kGroup = 8;       // rows
constexpr std::size_t kSumsTile = 512;  // bytes of each sum of a group

/// A single byte, for the remaining columns.
struct Byte {
  using Vector = std::uint8_t;
  static Vector load(const std::uint8_t* from) { return *from; }
  static void store(std::uint8_t* to, Vector v) { *to = v; }
  static Vector add(Vector a, Vector b) { return static_cast<Vector>(a ^ b); }
};

/// to = a ^ b, in whole vectors.
template <class V>
[[gnu::always_inline]] inline void add_two(const std::uint8_t* a, const std::uint8_t* b,
                                           std::uint8_t* to, std::size_t size) {
  for (std::size_t at = 0; at < size; at += sizeof(typename V::Vector))
    V::store(to + at, V::add(V::load(a + at), V::load(b + at)));
}

/// Computes all sums of rows[0..count)[begin..begin + size), count <= kGroup: sum number i, `size`
/// bytes long, contains row r if bit r of i is set. Bits of rows that do not exist add nothing.
template <class V>
void make_sums(const std::uint8_t* const* rows, std::size_t count, std::size_t begin,
               std::size_t size, std::uint8_t* sums) {
  for (std::size_t at = 0; at < size; ++at) sums[at] = 0;
  static constexpr std::uint8_t kZeros[kSumsTile] = {};
  for (std::size_t r = 0; r < kGroup; ++r) {
    const std::uint8_t* const row = r < count ? rows[r] + begin : kZeros;
    for (std::size_t i = 0; i < std::size_t{1} << r; ++i)
      add_two<V>(sums + i * size, row, sums + ((std::size_t{1} << r) + i) * size, size);
  }
}

/// outs[j][begin..end) ^= the rows selected by row j of the matrix; end - begin must be whole
/// vectors.
template <class V>
void bit_product_of(const std::uint8_t* bits, const std::uint8_t* const* rows, std::size_t count,
                    std::uint8_t* const* outs, std::size_t outs_count, std::size_t begin,
                    std::size_t end) {
  alignas(64) std::uint8_t sums[(std::size_t{1} << kGroup) * kSumsTile];
  const std::size_t groups = (count + kGroup - 1) / kGroup;
  for (; begin < end; begin += kSumsTile) {
    const std::size_t size = end - begin < kSumsTile ? end - begin : kSumsTile;
    for (std::size_t group = 0; group < groups; ++group) {
      const std::size_t first = group * kGroup;
      make_sums<V>(rows + first, count - first < kGroup ? count - first : kGroup, begin, size,
                   sums);
      for (std::size_t j = 0; j < outs_count; ++j) {
        std::uint8_t* const out = outs[j] + begin;
        add_two<V>(out, sums + bits[j * groups + group] * size, out, size);
      }
    }
  }
}

template <class V>
void bit_product(const std::uint8_t* bits, const std::uint8_t* const* rows, std::size_t count,
                 std::uint8_t* const* outs, std::size_t outs_count, std::size_t length) {
  const std::size_t whole = length / sizeof(typename V::Vector) * sizeof(typename V::Vector);
  if (whole > 0) bit_product_of<V>(bits, rows, count, outs, outs_count, 0, whole);
  if (whole < length) bit_product_of<Byte>(bits, rows, count, outs, outs_count, whole, length);
}

}  // namespace
}  // namespace s3oram::gf
