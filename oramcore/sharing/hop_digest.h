// Digests of rows that servers pass on to each other: D(x) = c_0 x_0 + c_1 x_1 + ... in GF(2^128),
// where x_j are the row's words of 16 bytes (the last one padded with zeros) and c_j are secret
// coefficients. If a party that does not know them changes a row, its digest stays the same with a
// probability of 2^-128. D(x + y) = D(x) + D(y), but D does not commute with a factor from GF(2^8),
// so a row is scaled before its digest is computed.
#pragma once

#include <vector>

#include "oramcore/base/random.h"
#include "oramcore/field/gf128.h"

namespace s3oram {

/// The digests of one tile of columns, under one key. The digests of all tiles add up to those of
/// whole rows. After construction any thread may use it.
class HopDigest {
 public:
  /// `coefficients` is the key's stream for this tile; the tile is `width` bytes wide.
  HopDigest(Random& coefficients, std::size_t width);
  ~HopDigest();
  HopDigest(const HopDigest&) = delete;
  HopDigest& operator=(const HopDigest&) = delete;

  /// Adds the digest of `row`, which has the tile's width, to `sum`.
  void add(const std::uint8_t* row, gf128::Sum& sum) const;
  /// Does the same for whole words, as RowSum returns them.
  void add_words(ByteSpan words, gf128::Sum& sum) const {
    gf128::multiply_add(coefficients_, words, sum);
  }

 private:
  std::size_t width_;
  std::vector<gf128::Element> coefficients_;
};

}  // namespace s3oram
