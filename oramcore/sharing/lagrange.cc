// Lagrange coefficients, by NTL's arithmetic.
#include <NTL/GF2E.h>

#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

/// The field of field/gf256.h for NTL. Threads may share a context, but each has its own current
/// one, so each call makes this one current for its duration.
const NTL::GF2EContext& field() {
  static const NTL::GF2EContext context = [] {
    NTL::GF2X modulus;
    for (long power : {8, 4, 3, 1, 0}) SetCoeff(modulus, power);
    return NTL::GF2EContext(modulus);
  }();
  return context;
}

NTL::GF2E element(std::uint8_t byte) { return NTL::to_GF2E(NTL::GF2XFromBytes(&byte, 1)); }

std::uint8_t byte(const NTL::GF2E& element) {
  std::uint8_t byte = 0;
  NTL::BytesFromGF2X(&byte, rep(element), 1);
  return byte;
}

}  // namespace

Bytes lagrange_at_zero(ByteSpan points) {
  const NTL::GF2EPush push(field());
  Bytes coefficients;
  coefficients.reserve(points.size());
  for (const std::uint8_t i : points) {
    NTL::GF2E above(1);
    NTL::GF2E below(1);
    for (const std::uint8_t j : points) {
      if (j == i) continue;
      above *= element(j);
      below *= element(i) + element(j);
    }
    coefficients.push_back(byte(above / below));
  }
  return coefficients;
}

}  // namespace s3oram
