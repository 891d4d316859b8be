// Short linear functions of shares, by which shares of long slots are compared: the digests of
// shares on a polynomial of degree t lie on one too, byte by byte. Those of others do so with a
// probability of about 2^-14 at most, and never if the shares are wrong in one place alone.
#pragma once

#include "oramcore/base/random.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {

class ShareDigest {
 public:
  static constexpr std::size_t kSize = 32;
  /// Of shares of `size` bytes. Whoever has the seed makes the same.
  ShareDigest(const Seed& seed, std::size_t size);
  Bytes of(ByteSpan share) const;

 private:
  struct Half {
    Bytes of_rows, of_parts;  // coefficients; none is 0
  };
  Half halves_[2];
};

}  // namespace s3oram
