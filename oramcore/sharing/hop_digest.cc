// Computes digests of rows, tile by tile.
#include "oramcore/sharing/hop_digest.h"

#include <sodium.h>

#include <cstring>

namespace s3oram {
namespace {

constexpr std::size_t kWord = sizeof(gf128::Element);

}  // namespace

HopDigest::HopDigest(Random& coefficients, std::size_t width)
    : width_(width), coefficients_((width + kWord - 1) / kWord) {
  coefficients.fill(
      {reinterpret_cast<std::uint8_t*>(coefficients_.data()), coefficients_.size() * kWord});
}

HopDigest::~HopDigest() { sodium_memzero(coefficients_.data(), coefficients_.size() * kWord); }

void HopDigest::add(const std::uint8_t* row, gf128::Sum& sum) const {
  const std::size_t whole = width_ / kWord;
  const std::span coefficients(coefficients_);
  gf128::multiply_add(coefficients.first(whole), ByteSpan(row, whole * kWord), sum);
  if (whole == coefficients.size()) return;
  std::uint8_t last[kWord] = {};
  std::memcpy(last, row + whole * kWord, width_ - whole * kWord);
  gf128::multiply_add(coefficients.last(1), last, sum);
}

}  // namespace s3oram
