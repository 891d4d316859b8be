// The kernels for any vector unit with a byte shuffle. `V` describes the unit:
//   Vector, zero(), load(p), store(p, v), add(a, b), both(a, b)   add is XOR, both is AND
//   Tables, tables(coefficient)                          nibble tables, ready to multiply with
//   Nibbles, split(v)                                    data, ready to be multiplied
//   multiply(tables, nibbles)
//   kAhead                                               how many bytes of a row to fetch ahead
// Everything here is local to the including file: see kernels.h.
#pragma once

#include "oramcore/field/kernels.h"
#include "oramcore/field/kernels_bits.h"

namespace s3oram::gf {
namespace {

// --- Steps ------------------------------------------------------------------------------------

/// Two vectors side by side, so that a coefficient's tables are loaded once for both.
template <class V>
struct Step {
  typename V::Vector first = V::zero();
  typename V::Vector second = V::zero();
};
template <class V>
constexpr std::size_t kHalf = sizeof(typename V::Vector);
template <class V>
constexpr std::size_t kStep = 2 * kHalf<V>;

template <class V>
Step<V> load(const std::uint8_t* from) {
  return {V::load(from), V::load(from + kHalf<V>)};
}

/// to ^= sum.
template <class V>
void add_to(std::uint8_t* to, const Step<V>& sum) {
  const auto old = load<V>(to);
  V::store(to, V::add(old.first, sum.first));
  V::store(to + kHalf<V>, V::add(old.second, sum.second));
}

// A row's length need not be a multiple of a step. The last step ends where the row ends, overlaps
// the previous one, and keeps only its last bytes. The mask that keeps n of them starts n bytes
// into this object.
template <class V>
struct Edge {
  std::uint8_t zeros[kStep<V>];
  std::uint8_t ones[kStep<V>];
  constexpr Edge() : zeros{}, ones{} {
    for (auto& one : ones) one = 0xff;
  }
};
template <class V>
constexpr Edge<V> kEdge;

/// Returns the last `size` bytes of the sum, with zeros before them.
template <class V>
Step<V> keep_last(std::size_t size, const Step<V>& sum) {
  const auto mask = load<V>(kEdge<V>.zeros + size);
  return {V::both(sum.first, mask.first), V::both(sum.second, mask.second)};
}

// --- Inner product ----------------------------------------------------------------------------
// Limited by memory. A pass takes several rows, so that the sums are loaded and stored once for all
// of them, and covers a tile of columns, so that the sums stay in the cache. It prefetches its own
// data a little ahead and, at its end, the start of the next pass, because the hardware predicts
// neither so many streams nor the jump to other rows.

constexpr std::size_t kTile = 65536;  // bytes; a tile has up to half as much again
constexpr std::size_t kLine = 64;     // bytes of a cache line, at least

/// The beginning of the next pass: rows[r] + begin.
struct Next {
  const std::uint8_t* const* rows;
  std::size_t begin;
};

/// sum_r coefficients[r] * rows[r], R rows, one step.
template <class V, std::size_t R>
[[gnu::always_inline]] inline Step<V> sum_rows(const typename V::Tables* tables,
                                               const std::uint8_t* const* rows, std::size_t at) {
  Step<V> sum;
#pragma GCC unroll 8
  for (std::size_t r = 0; r < R; ++r) {
    const auto data = load<V>(rows[r] + at);
    sum.first = V::add(sum.first, V::multiply(tables[r], V::split(data.first)));
    sum.second = V::add(sum.second, V::multiply(tables[r], V::split(data.second)));
  }
  return sum;
}

/// Starts to fetch one step of each of R rows.
template <class V, std::size_t R>
[[gnu::always_inline]] inline void fetch(const std::uint8_t* const* rows, std::size_t at) {
#pragma GCC unroll 8
  for (std::size_t r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (std::size_t line = 0; line < kStep<V>; line += kLine)
      __builtin_prefetch(rows[r] + at + line, 0, 3);
}

/// Adds R rows to out[at..end), in whole steps only, and prefetches as many bytes, beginning at
/// ahead[r] + from. Returns where it stopped.
template <class V, std::size_t R>
[[gnu::always_inline]] inline std::size_t steps(const typename V::Tables* tables,
                                                const std::uint8_t* const* rows,
                                                const std::uint8_t* const* ahead, std::size_t from,
                                                std::uint8_t* out, std::size_t at,
                                                std::size_t end) {
  for (; at + kStep<V> <= end; at += kStep<V>, from += kStep<V>) {
    fetch<V, R>(ahead, from);
    add_to<V>(out + at, sum_rows<V, R>(tables, rows, at));
  }
  return at;
}

/// Adds R rows to out[begin..end), which must be at least one step.
template <class V, std::size_t R>
void pass(const std::uint8_t* coefficients, const std::uint8_t* const* rows, Next next,
          std::uint8_t* out, std::size_t begin, std::size_t end) {
  typename V::Tables tables[R];
  const std::uint8_t* here[R];
  const std::uint8_t* there[R];
  for (std::size_t r = 0; r < R; ++r) {
    tables[r] = V::tables(coefficients[r]);
    here[r] = rows[r];
    there[r] = next.rows[r];
  }
  // Up to `turn` there are only whole steps, so that no byte of these rows is left unfetched.
  const std::size_t length = end - begin;
  const std::size_t ahead =
      length < V::kAhead ? length : V::kAhead + (length - V::kAhead) % kStep<V>;
  const std::size_t turn = end - ahead;
  steps<V, R>(tables, here, here, begin + ahead, out, begin, turn);
  const std::size_t at = steps<V, R>(tables, here, there, next.begin, out, turn, end);
  if (at < end) {
    fetch<V, R>(there, next.begin + at - turn);
    const std::size_t last = end - kStep<V>;
    add_to<V>(out + last, keep_last<V>(end - at, sum_rows<V, R>(tables, here, last)));
  }
}

/// Does as many passes of R rows as possible from row `i` on. Returns the first row not done.
template <class V, std::size_t R>
std::size_t passes(const std::uint8_t* coefficients, const std::uint8_t* const* rows, std::size_t i,
                   std::size_t count, std::uint8_t* out, std::size_t begin, std::size_t end) {
  for (; i + R <= count; i += R) {
    Next next{rows, end};  // the first rows of the next tile, unless this tile has more
    if (i + R < count) next = {rows + (i + 2 * R <= count ? i + R : count - R), begin};
    pass<V, R>(coefficients + i, rows + i, next, out, begin, end);
  }
  return i;
}

template <class V>
void inner_product(const std::uint8_t* coefficients, const std::uint8_t* const* rows,
                   std::size_t count, std::uint8_t* out, std::size_t length) {
  if (length < kStep<V>) {
    kPortableKernels.inner_product(coefficients, rows, count, out, length);
    return;
  }
  // All tiles have the same size, because a few columns left over after full tiles would cost a
  // jump per row.
  const std::size_t tiles = length < kTile ? 1 : (length + kTile / 2) / kTile;
  const std::size_t tile = (length / tiles + kStep<V>) / kStep<V> * kStep<V>;
  for (std::size_t begin = 0; begin < length; begin += tile) {
    const std::size_t end = length - begin < tile ? length : begin + tile;
    std::size_t i = passes<V, 8>(coefficients, rows, 0, count, out, begin, end);
    i = passes<V, 4>(coefficients, rows, i, count, out, begin, end);
    i = passes<V, 2>(coefficients, rows, i, count, out, begin, end);
    passes<V, 1>(coefficients, rows, i, count, out, begin, end);
  }
}

// --- Sum ---------------------------------------------------------------------------------------
// An inner product in which every coefficient is one.

template <class V>
struct Ones : V {
  struct Tables {};
  using Nibbles = typename V::Vector;
  static Tables tables(std::uint8_t) { return {}; }
  static Nibbles split(typename V::Vector v) { return v; }
  static typename V::Vector multiply(Tables, Nibbles data) { return data; }
};

template <class V>
void sum(const std::uint8_t* const* rows, std::size_t count, std::uint8_t* out,
         std::size_t length) {
  if (length < kStep<V>) {
    kPortableKernels.sum(rows, count, out, length);
    return;
  }
  // Ones ignores its coefficients, but there must be a byte for each row; the array of pointers has
  // enough.
  inner_product<Ones<V>>(reinterpret_cast<const std::uint8_t*>(rows), rows, count, out, length);
}

// --- Matrix product ---------------------------------------------------------------------------
// Limited by the shuffles. The data is split into nibbles once for all columns of the matrix, in a
// panel of many rows by one step, which fits into L1 together with the tables. The sums of a few
// columns stay in registers for all rows of a panel.

template <class V>
struct SplitStep {
  typename V::Nibbles first;
  typename V::Nibbles second;
};
/// The number of rows in a panel, which has 16 KiB.
template <class V>
constexpr std::size_t kPanelRows = 16384 / sizeof(SplitStep<V>);

/// Adds a panel times K columns of the matrix to the last `size` bytes of outs[0..K)[at..at+step).
template <class V, std::size_t K>
void panel_product(const std::uint8_t* matrix, std::size_t columns, const SplitStep<V>* panel,
                   std::size_t count, std::uint8_t* const* outs, std::size_t at, std::size_t size) {
  Step<V> sums[K];
  for (std::size_t i = 0; i < count; ++i, matrix += columns) {
    const SplitStep<V> data = panel[i];
#pragma GCC unroll 4
    for (std::size_t k = 0; k < K; ++k) {
      const auto tables = V::tables(matrix[k]);
      sums[k].first = V::add(sums[k].first, V::multiply(tables, data.first));
      sums[k].second = V::add(sums[k].second, V::multiply(tables, data.second));
    }
  }
  for (std::size_t k = 0; k < K; ++k) add_to<V>(outs[k] + at, keep_last<V>(size, sums[k]));
}

template <class V>
void matrix_product(const std::uint8_t* matrix, const std::uint8_t* const* rows, std::size_t count,
                    std::uint8_t* const* outs, std::size_t columns, std::size_t length) {
  if (length < kStep<V>) {
    kPortableKernels.matrix_product(matrix, rows, count, outs, columns, length);
    return;
  }
  SplitStep<V> panel[kPanelRows<V>];
  for (std::size_t top = 0; top < count; top += kPanelRows<V>) {
    const std::size_t height = count - top < kPanelRows<V> ? count - top : kPanelRows<V>;
    const std::uint8_t* factors = matrix + top * columns;
    for (std::size_t begin = 0; begin < length; begin += kStep<V>) {
      const std::size_t size = length - begin < kStep<V> ? length - begin : kStep<V>;
      const std::size_t at = begin + size - kStep<V>;
      for (std::size_t i = 0; i < height; ++i) {
        const auto data = load<V>(rows[top + i] + at);
        panel[i] = {V::split(data.first), V::split(data.second)};
      }
      std::size_t k = 0;
      for (; k + 4 <= columns; k += 4)
        panel_product<V, 4>(factors + k, columns, panel, height, outs + k, at, size);
      for (; k < columns; ++k)
        panel_product<V, 1>(factors + k, columns, panel, height, outs + k, at, size);
    }
  }
}

}  // namespace
}  // namespace s3oram::gf
