// Interpolates and evaluates buckets with the kernels of oramcore/field.
#include "oramcore/schemes/ring/protocol/polynomial.h"

#include <bit>
#include <cassert>
#include <cstring>

#include "oramcore/field/gf256.h"

namespace s3oram::ring {
namespace {

/// Returns the coefficients of (x - p_0)(x - p_1) ..., lowest first, without the highest one, which
/// is 1.
Bytes product_of_roots(std::span<const Point> points) {
  Bytes product(points.size());
  for (std::size_t degree = 0; degree < points.size(); ++degree) {
    // Multiplies by (x + p); the coefficient above the highest so far was an implicit 1.
    const Point p = points[degree];
    product[degree] = 1;
    for (std::size_t i = degree; i > 0; --i)
      product[i] = static_cast<std::uint8_t>(product[i - 1] ^ gf::mul(product[i], p));
    product[0] = gf::mul(product[0], p);
  }
  return product;
}

/// Returns the inverse of the Vandermonde matrix: row i has the coefficients of the polynomial that
/// is 1 at points[i] and 0 at the other points.
Bytes inverse_vandermonde(std::span<const Point> points) {
  const std::size_t size = points.size();
  const Bytes all = product_of_roots(points);
  Bytes matrix(size * size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::span<std::uint8_t> basis(matrix.data() + i * size, size);
    // Divides by (x - p), from the highest coefficient down, and evaluates the quotient at p.
    const Point p = points[i];
    std::uint8_t coefficient = 1, at_p = 0;
    for (std::size_t k = size; k-- > 0;) {
      basis[k] = coefficient;
      at_p = static_cast<std::uint8_t>(gf::mul(at_p, p) ^ coefficient);
      coefficient = static_cast<std::uint8_t>(all[k] ^ gf::mul(coefficient, p));
    }
    const std::uint8_t scale = gf::inverse(at_p);
    for (std::uint8_t& each : basis) each = gf::mul(each, scale);
  }
  return matrix;
}

}  // namespace

Bytes powers(Point x, std::size_t rows) {
  Bytes weights(rows);
  std::uint8_t power = 1;
  for (std::uint8_t& weight : weights) {
    weight = power;
    power = gf::mul(power, x);
  }
  return weights;
}

void interpolate(std::span<const Point> points, std::span<const std::uint8_t* const> slots,
                 std::span<std::uint8_t* const> rows, std::size_t length) {
  assert(points.size() == slots.size() && points.size() == rows.size());
  for (std::uint8_t* const row : rows) std::memset(row, 0, length);
  gf::matrix_product(inverse_vandermonde(points), slots, rows, length);
}

void evaluate(std::span<const std::uint8_t* const> rows, std::span<const Point> points,
              std::span<std::uint8_t* const> values, std::size_t length) {
  assert(points.size() == values.size());
  if (points.empty()) return;
  Bytes matrix(rows.size() * points.size());
  for (std::size_t j = 0; j < points.size(); ++j) {
    const Bytes weights = powers(points[j], rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) matrix[i * points.size() + j] = weights[i];
  }
  for (std::uint8_t* const value : values) std::memset(value, 0, length);
  gf::matrix_product(matrix, rows, values, length);
}

unsigned AskedPoints::count() const {
  unsigned count = 0;
  for (const std::uint8_t byte : bits_) count += static_cast<unsigned>(std::popcount(byte));
  return count;
}

}  // namespace s3oram::ring
