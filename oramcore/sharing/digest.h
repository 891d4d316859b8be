// Short linear functions of shares, used to compare the shares of long slots. Digests of shares on
// a polynomial of degree t lie on such a polynomial too, byte by byte. Digests of other shares do
// so with a probability of at most about 2^-14, and never if the shares are wrong in only one
// place.
#pragma once

#include "oramcore/base/random.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {

class ShareDigest {
 public:
  static constexpr std::size_t kSize = 32;
  /// Makes digests of shares of `size` bytes. The same seed gives the same digests.
  ShareDigest(const Seed& seed, std::size_t size);
  Bytes of(ByteSpan share) const;

 private:
  struct Half {
    Bytes of_rows, of_parts;  // coefficients, none of them 0
  };
  Half halves_[2];
};

}  // namespace s3oram
