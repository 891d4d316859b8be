// Reduces a share to its digest, with two inner products for each half.
#include "oramcore/sharing/digest.h"

#include <algorithm>

#include "oramcore/field/gf256.h"
#include "oramcore/sharing/seeded.h"

namespace s3oram {
namespace {

// A share is reduced in two steps: its rows to one row, and the parts of that row to half a digest.
constexpr std::size_t kRow = 1024, kPart = ShareDigest::kSize / 2;

Bytes coefficients(const Seed& seed, std::uint64_t number, std::size_t count) {
  Bytes bytes = expand(seed, "digest", number, count);
  std::ranges::replace(bytes, std::uint8_t{0}, std::uint8_t{1});
  return bytes;
}

std::vector<const std::uint8_t*> rows_of(ByteSpan bytes, std::size_t row) {
  std::vector<const std::uint8_t*> rows;
  for (std::size_t at = 0; at + row <= bytes.size(); at += row) rows.push_back(bytes.data() + at);
  return rows;
}

}  // namespace

ShareDigest::ShareDigest(const Seed& seed, std::size_t size) {
  std::uint64_t number = 0;
  for (Half& half : halves_) {
    half.of_rows = coefficients(seed, number++, size / kRow + 1);
    half.of_parts = coefficients(seed, number++, kRow / kPart);
  }
}

Bytes ShareDigest::of(ByteSpan share) const {
  auto rows = rows_of(share, kRow);
  Bytes last(kRow);
  std::ranges::copy(share.subspan(rows.size() * kRow), last.begin());
  rows.push_back(last.data());
  Bytes digest(kSize);
  MutableByteSpan left = digest;
  for (const Half& half : halves_) {
    Bytes sum(kRow);
    gf::inner_product(half.of_rows, rows, sum);
    gf::inner_product(half.of_parts, rows_of(sum, kPart), left.first(kPart));
    left = left.subspan(kPart);
  }
  return digest;
}

}  // namespace s3oram
