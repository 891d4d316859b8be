// Compares Lagrange coefficients with their definition.
#include <NTL/GF2EX.h>
#include <NTL/mat_GF2E.h>
#include <gtest/gtest.h>

#include <thread>

#include "oramcore/field/gf256.h"
#include "tests/field/oracle.h"
#include "tests/sharing/parties.h"

namespace s3oram {
namespace {

/// Returns the first row of the inverse of the Vandermonde matrix V[i][j] = x_i^j, by its
/// definition.
Bytes first_row_of_inverse(ByteSpan points) {
  const oracle::Field field;
  const long n = static_cast<long>(points.size());
  NTL::Mat<NTL::GF2E> vandermonde;
  vandermonde.SetDims(n, n);
  for (long i = 0; i < n; ++i)
    for (long j = 0; j < n; ++j)
      vandermonde[i][j] = NTL::power(oracle::element(points[static_cast<std::size_t>(i)]), j);
  const auto inverse = NTL::inv(vandermonde);
  Bytes row;
  for (long j = 0; j < n; ++j) row.push_back(oracle::byte(inverse[0][j]));
  return row;
}

TEST(Lagrange, IsTheFirstRowOfTheInverseVandermondeMatrix) {
  for (std::size_t count = 1; count <= 7; ++count)
    for (const Bytes& points : choices(7, count))
      EXPECT_EQ(lagrange_at_zero(points), first_row_of_inverse(points));
  const Bytes scattered = {255, 1, 128, 77, 2};
  EXPECT_EQ(lagrange_at_zero(scattered), first_row_of_inverse(scattered));
}

TEST(Lagrange, OfOnePointIsOne) { EXPECT_EQ(lagrange_at_zero(Bytes{9}), Bytes{1}); }

// NTL's modulus belongs to a thread.
TEST(Lagrange, WorksOnEveryThreadAndLeavesTheCallersModulusAlone) {
  const Bytes points = points_from(1, 5);
  const Bytes expected = lagrange_at_zero(points);
  Bytes elsewhere;
  std::thread([&] { elsewhere = lagrange_at_zero(points); }).join();
  EXPECT_EQ(elsewhere, expected);

  NTL::GF2X other;  // x^2 + x + 1
  for (long power : {2, 1, 0}) SetCoeff(other, power);
  const NTL::GF2EPush push(other);
  EXPECT_EQ(lagrange_at_zero(points), expected);
  EXPECT_EQ(NTL::GF2E::degree(), 2);
}

}  // namespace
}  // namespace s3oram
