// The kernels for any machine, in constant time and without tables. A coefficient is a polynomial
// in x, so by Horner's rule sum_i c_i * row_i takes eight steps, from the highest bit down:
// multiply the sum by x, then add the rows whose coefficient has the bit set. Eight rows share the
// multiplications by x.
#include <cstring>

#include "oramcore/field/kernels.h"
#include "oramcore/field/kernels_bits.h"
#include "oramcore/field/scalar.h"

namespace s3oram::gf {
namespace {

using Word = std::uint64_t;
constexpr std::size_t kRows = 8;    // rows in one pass
constexpr std::size_t kWords = 8;   // words in one step
constexpr std::size_t kTile = 512;  // bytes of every row that a matrix product keeps in cache

constexpr Word repeat(unsigned byte) { return 0x0101010101010101u * Word{byte}; }

/// Multiplies each of eight bytes by x.
Word times_x(Word bytes) {
  const Word carries = (bytes >> 7) & repeat(1);
  return ((bytes << 1) & repeat(0xfe)) ^ (carries * kReduction);
}

/// Adds the pass to out[begin..begin + size), size <= 8 * kWords.
void step(const std::uint8_t* coefficients, const std::uint8_t* const* rows, std::size_t count,
          std::uint8_t* out, std::size_t begin, std::size_t size) {
  Word data[kRows][kWords] = {};
  for (std::size_t r = 0; r < count; ++r) std::memcpy(data[r], rows[r] + begin, size);
  Word sum[kWords] = {};
  for (int bit = 7; bit >= 0; --bit) {
    for (Word& word : sum) word = times_x(word);
    for (std::size_t r = 0; r < count; ++r) {
      const Word mask = Word{0} - ((coefficients[r] >> bit) & Word{1});
      for (std::size_t w = 0; w < kWords; ++w) sum[w] ^= data[r][w] & mask;
    }
  }
  Word result[kWords] = {};
  std::memcpy(result, out + begin, size);
  for (std::size_t w = 0; w < kWords; ++w) result[w] ^= sum[w];
  std::memcpy(out + begin, result, size);
}

/// out[begin..end) ^= sum_i coefficients[i * stride] * rows[i].
void accumulate(const std::uint8_t* coefficients, std::size_t stride,
                const std::uint8_t* const* rows, std::size_t count, std::uint8_t* out,
                std::size_t begin, std::size_t end) {
  constexpr std::size_t kStep = sizeof(Word) * kWords;
  for (std::size_t i = 0; i < count; i += kRows) {
    const std::size_t pass = count - i < kRows ? count - i : kRows;
    std::uint8_t chosen[kRows];
    for (std::size_t r = 0; r < pass; ++r) chosen[r] = coefficients[(i + r) * stride];
    std::size_t at = begin;
    for (; at + kStep <= end; at += kStep) step(chosen, rows + i, pass, out, at, kStep);
    if (at < end) step(chosen, rows + i, pass, out, at, end - at);
  }
}

void inner_product(const std::uint8_t* coefficients, const std::uint8_t* const* rows,
                   std::size_t count, std::uint8_t* out, std::size_t length) {
  accumulate(coefficients, 1, rows, count, out, 0, length);
}

void matrix_product(const std::uint8_t* matrix, const std::uint8_t* const* rows, std::size_t count,
                    std::uint8_t* const* outs, std::size_t columns, std::size_t length) {
  for (std::size_t begin = 0; begin < length; begin += kTile) {
    const std::size_t end = length - begin < kTile ? length : begin + kTile;
    for (std::size_t k = 0; k < columns; ++k)
      accumulate(matrix + k, columns, rows, count, outs[k], begin, end);
  }
}

/// Sixteen bytes, which the compiler handles as one vector if the processor always has some.
struct Sixteen {
  using Vector = std::uint64_t __attribute__((vector_size(16)));
  static Vector load(const std::uint8_t* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
  }
  static void store(std::uint8_t* to, Vector v) { std::memcpy(to, &v, sizeof v); }
  static Vector add(Vector a, Vector b) { return a ^ b; }
};

void add_row(const std::uint8_t* row, std::uint8_t* out, std::size_t length) {
  std::size_t at = 0;
  for (; at + sizeof(Sixteen::Vector) <= length; at += sizeof(Sixteen::Vector))
    Sixteen::store(out + at, Sixteen::add(Sixteen::load(out + at), Sixteen::load(row + at)));
  for (; at < length; ++at) out[at] ^= row[at];
}

void sum(const std::uint8_t* const* rows, std::size_t count, std::uint8_t* out,
         std::size_t length) {
  for (std::size_t i = 0; i < count; ++i) add_row(rows[i], out, length);
}

}  // namespace

constexpr Kernels kPortableKernels{inner_product, matrix_product, sum, bit_product<Sixteen>};

}  // namespace s3oram::gf
