// Expands seeds, and completes shares some of which are expanded from seeds.
#include "oramcore/sharing/seeded.h"

#include <cassert>
#include <cstring>
#include <numeric>

#include "oramcore/field/gf256.h"

namespace s3oram {

Bytes expand(const Seed& seed, std::string_view purpose, std::uint64_t number, std::size_t size) {
  Bytes context(purpose.begin(), purpose.end());
  context.resize(context.size() + sizeof number);
  std::memcpy(context.data() + purpose.size(), &number, sizeof number);
  Bytes bytes(size);
  Prg(seed, context).fill(bytes);
  return bytes;
}

std::vector<Bytes> complete_shares(const Scheme& scheme, ByteSpan secret,
                                   std::span<const Bytes> first) {
  assert(first.size() == scheme.threshold);
  std::vector<const std::uint8_t*> rows{secret.data()};
  for (const Bytes& share : first) rows.push_back(share.data());
  std::vector<Bytes> shares;
  for (unsigned server = scheme.threshold + 1u; server <= scheme.servers; ++server) {
    // The value at x is the value at 0 of the polynomial shifted by x, whose points shift too.
    Bytes points(first.size() + 1);
    std::iota(points.begin(), points.end(), std::uint8_t{0});
    for (std::uint8_t& point : points) point ^= static_cast<std::uint8_t>(server);
    Bytes& share = shares.emplace_back(secret.size());
    gf::inner_product(lagrange_at_zero(points), rows, share);
  }
  return shares;
}

std::uint8_t part_weight(std::uint8_t part, std::uint8_t server) {
  return static_cast<std::uint8_t>(1 ^ gf::mul(server, gf::inverse(part)));
}

}  // namespace s3oram
