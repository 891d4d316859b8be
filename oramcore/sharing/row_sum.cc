// Computes weighted sums of rows (row_sum.h).
#include "oramcore/sharing/row_sum.h"

#include <cstring>

namespace s3oram {
namespace {

constexpr std::size_t kElement = sizeof(gf128::Element);

}  // namespace

RowSum::RowSum(std::size_t width) : width_(width), words_(size(width) / kElement) {}

void RowSum::add(const gf128::Element& factor, const std::uint8_t* row) {
  const std::size_t whole = width_ / kElement;
  for (std::size_t word = 0; word < whole; ++word)
    gf128::multiply_add({&factor, 1}, ByteSpan(row + word * kElement, kElement), words_[word]);
  if (whole == words_.size()) return;
  std::uint8_t last[kElement] = {};
  std::memcpy(last, row + whole * kElement, width_ - whole * kElement);
  gf128::multiply_add({&factor, 1}, last, words_[whole]);
}

Bytes RowSum::bytes() const {
  Bytes bytes;
  for (const gf128::Sum& word : words_) {
    const auto reduced = gf128::to_bytes(gf128::reduce(word));
    bytes.insert(bytes.end(), reduced.begin(), reduced.end());
  }
  return bytes;
}

}  // namespace s3oram
