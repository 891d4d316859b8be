// Sums over GF(2), for any vector unit `V` that has Vector, load(p), store(p, v) and add(a, b).
// Coefficients are bits: a row either counts or not. The machine that computes knows these bits.
// Everything here is local to the including file: see kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace s3oram::gf {
namespace {

// --- Bit matrix product -------------------------------------------------------------------------
// Uses the method of four Russians: for each group of four rows, all 16 sums are computed, and four
// bits of a row of the matrix select one of them. A pass takes the sums of eight such groups, for a
// strip of columns so narrow that they stay in L1, and loads and stores each output once for all of
// them.

constexpr std::size_t kGroup = 4;                        // rows
constexpr std::size_t kSums = std::size_t{1} << kGroup;  // sums of a group
constexpr std::size_t kGroups = 8, kPass = kGroups * kGroup;
constexpr std::size_t kStrip = 128;       // columns
constexpr std::size_t kOutsAtOnce = 256;  // outputs whose strips are summed in one buffer

/// A strip of one row.
template <class V>
struct Strip {
  static constexpr std::size_t kVector = sizeof(typename V::Vector), kVectors = kStrip / kVector;

  static Strip load(const std::uint8_t* from) {
    Strip strip;
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kVectors; ++i) strip.at[i] = V::load(from + i * kVector);
    return strip;
  }
  /// Loads `size` bytes, with zeros behind them.
  static Strip load(const std::uint8_t* from, std::size_t size) {
    if (size == kStrip) return load(from);
    std::uint8_t padded[kStrip] = {};
    for (std::size_t i = 0; i < size; ++i) padded[i] = from[i];
    return load(padded);
  }
  void store(std::uint8_t* to) const {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kVectors; ++i) V::store(to + i * kVector, at[i]);
  }
  /// Stores the first `size` bytes.
  void store(std::uint8_t* to, std::size_t size) const {
    if (size == kStrip) return store(to);
    std::uint8_t padded[kStrip];
    store(padded);
    for (std::size_t i = 0; i < size; ++i) to[i] = padded[i];
  }
  void add(const std::uint8_t* from) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kVectors; ++i) at[i] = V::add(at[i], V::load(from + i * kVector));
  }

  typename V::Vector at[kVectors];
};

/// Computes all sums of columns [begin, begin + size) of up to kGroup rows, size <= kStrip: sum
/// number i, a strip long, contains row r if bit r of i is set. Bits of rows that do not exist add
/// nothing. Fetches the next strip of the rows.
template <class V>
void make_sums(const std::uint8_t* const* rows, std::size_t count, std::size_t begin,
               std::size_t size, std::uint8_t* sums) {
  for (std::size_t at = 0; at < kStrip; ++at) sums[at] = 0;
  for (std::size_t r = 0; r < kGroup; ++r) {
    const std::uint8_t* const row = r < count ? rows[r] + begin : sums;
    if (r < count && size == kStrip)
      for (std::size_t at = 0; at < kStrip; at += 64) __builtin_prefetch(row + kStrip + at);
    const Strip<V> of_row = Strip<V>::load(row, r < count ? size : kStrip);
    const std::size_t half = std::size_t{1} << r;
    for (std::size_t i = 0; i < half; ++i) {
      Strip<V> sum = of_row;
      sum.add(sums + i * kStrip);
      sum.store(sums + (half + i) * kStrip);
    }
  }
}

/// Returns kPass bits from byte `at` of a row of the matrix on, and zeros behind its end.
inline std::uint32_t bits_from(const std::uint8_t* row, std::size_t at, std::size_t size) {
  std::uint32_t bits = 0;
  if (at + sizeof bits <= size)
    __builtin_memcpy(&bits, row + at, sizeof bits);
  else
    for (std::size_t i = 0; at + i < size; ++i) bits |= std::uint32_t{row[at + i]} << 8 * i;
  return bits;
}

/// outs[j][begin..begin + size) ^= the rows selected by row j of the matrix, size <= kStrip, j <
/// outs_count <= kOutsAtOnce.
template <class V>
void add_strip(const std::uint8_t* bits, const std::uint8_t* const* rows, std::size_t count,
               std::uint8_t* const* outs, std::size_t outs_count, std::size_t begin,
               std::size_t size) {
  alignas(64) std::uint8_t sums[kGroups * kSums * kStrip];
  alignas(64) std::uint8_t totals[kOutsAtOnce * kStrip];
  const std::size_t row_size = (count + 7) / 8;
  for (std::size_t j = 0; j < outs_count; ++j)
    Strip<V>::load(outs[j] + begin, size).store(totals + j * kStrip);
  for (std::size_t first = 0; first < count; first += kPass) {
    for (std::size_t group = 0; group < kGroups; ++group) {
      const std::size_t row = first + group * kGroup, left = row < count ? count - row : 0;
      make_sums<V>(rows + row, left < kGroup ? left : kGroup, begin, size,
                   sums + group * kSums * kStrip);
    }
    for (std::size_t j = 0; j < outs_count; ++j) {
      std::uint32_t selected = bits_from(bits + j * row_size, first / 8, row_size);
      Strip<V> total = Strip<V>::load(totals + j * kStrip);
#pragma GCC unroll 8
      for (std::size_t group = 0; group < kGroups; ++group, selected >>= kGroup)
        total.add(sums + (group * kSums + selected % kSums) * kStrip);
      total.store(totals + j * kStrip);
    }
  }
  for (std::size_t j = 0; j < outs_count; ++j)
    Strip<V>::load(totals + j * kStrip).store(outs[j] + begin, size);
}

template <class V>
void bit_product(const std::uint8_t* bits, const std::uint8_t* const* rows, std::size_t count,
                 std::uint8_t* const* outs, std::size_t outs_count, std::size_t length) {
  for (std::size_t j = 0; j < outs_count; j += kOutsAtOnce)
    for (std::size_t begin = 0; begin < length; begin += kStrip)
      add_strip<V>(bits + j * ((count + 7) / 8), rows, count, outs + j,
                   outs_count - j < kOutsAtOnce ? outs_count - j : kOutsAtOnce, begin,
                   length - begin < kStrip ? length - begin : kStrip);
}

}  // namespace
}  // namespace s3oram::gf
