// Computes marks: a digest of each share, and a hash of all digests.
#include "oramcore/sharing/share_mark.h"

#include <sodium.h>

namespace s3oram {
namespace {

HopDigest digest_under(const Seed& key, std::size_t slot_size) {
  Prg coefficients(key, as_bytes("share mark"));
  return {coefficients, slot_size};
}

}  // namespace

ShareMark::ShareMark(const Seed& key, std::size_t slot_size)
    : digest_(digest_under(key, slot_size)) {}

Mark ShareMark::of(std::span<const std::uint8_t* const> shares) const {
  Bytes digests;
  for (const std::uint8_t* share : shares) {
    gf128::Sum sum;
    if (share) digest_.add(share, sum);
    const auto digest = gf128::to_bytes(gf128::reduce(sum));
    digests.insert(digests.end(), digest.begin(), digest.end());
  }
  Mark mark;
  crypto_generichash(mark.data(), mark.size(), digests.data(), digests.size(), nullptr, 0);
  return mark;
}

}  // namespace s3oram
