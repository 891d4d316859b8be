// Converts between bytes and NTL's elements.
#include "oramcore/sharing/ntl_field.h"

namespace s3oram::ntl {

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

}  // namespace s3oram::ntl
