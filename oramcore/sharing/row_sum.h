// Sums of rows, each multiplied by an element of GF(2^128), word by word. If the factors are
// secret, such a sum vouches for every row, although it is only one row long.
#pragma once

#include <vector>

#include "oramcore/base/bytes.h"
#include "oramcore/field/gf128.h"

namespace s3oram {

class RowSum {
 public:
  /// For rows of `width` bytes, with the last word padded with zeros.
  explicit RowSum(std::size_t width);
  void add(const gf128::Element& factor, const std::uint8_t* row);
  /// Returns the sum so far, of size() bytes.
  Bytes bytes() const;
  static std::size_t size(std::size_t width) { return (width + 15) / 16 * 16; }

 private:
  std::size_t width_;
  std::vector<gf128::Sum> words_;
};

}  // namespace s3oram
