// Computes Lagrange coefficients with NTL's arithmetic.
#include "oramcore/sharing/ntl_field.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {

Bytes lagrange_at_zero(ByteSpan points) {
  const NTL::GF2EPush push(ntl::field());
  Bytes coefficients;
  coefficients.reserve(points.size());
  for (const std::uint8_t i : points) {
    NTL::GF2E above(1);
    NTL::GF2E below(1);
    for (const std::uint8_t j : points) {
      if (j == i) continue;
      above *= ntl::element(j);
      below *= ntl::element(i) + ntl::element(j);
    }
    coefficients.push_back(ntl::byte(above / below));
  }
  return coefficients;
}

}  // namespace s3oram
