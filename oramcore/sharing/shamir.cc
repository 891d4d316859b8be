// Creates shares, and recovers secrets from them, with the field's inner product.
#include "oramcore/sharing/shamir.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>

#include "oramcore/field/gf256.h"

namespace s3oram {
namespace {

/// Random coefficients drawn at a time: few enough to stay in L1 until all shares have used them.
constexpr std::size_t kDraw = 8192;

/// A Party counts servers in 8 bits, so a loop over 255 of them would not end.
constexpr unsigned kMostServers = 254;

}  // namespace

Status Scheme::check() const {
  if (threshold < 1) return fail(Errc::usage, "the privacy threshold must be at least 1");
  if (servers < quorum())
    return fail(Errc::usage, "{} servers are too few: a privacy threshold of {} needs {} or more",
                servers, threshold, quorum());
  if (servers > kMostServers)
    return fail(Errc::usage, "{} servers are too many: a volume has at most {}", servers,
                kMostServers);
  return {};
}

void create_shares(const Scheme& scheme, ByteSpan secret, Random& random,
                   std::span<const MutableByteSpan> shares) {
  assert(scheme.check() && shares.size() == scheme.servers);
  const std::size_t degree = scheme.threshold;
  // Each byte has its own polynomial, with the secret at 0 and random coefficients.
  std::array<std::uint8_t, kDraw> drawn;
  const std::size_t piece = kDraw / degree;
  std::vector<const std::uint8_t*> rows(degree);
  Bytes powers(degree);
  for (std::size_t at = 0; at < secret.size(); at += piece) {
    const std::size_t size = std::min(piece, secret.size() - at);
    random.fill(MutableByteSpan(drawn).first(degree * size));
    for (std::size_t j = 0; j < degree; ++j) rows[j] = drawn.data() + j * size;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      assert(shares[i].size() == secret.size());
      const auto x = static_cast<std::uint8_t>(i + 1);
      powers[0] = x;
      for (std::size_t j = 1; j < degree; ++j) powers[j] = gf::mul(powers[j - 1], x);
      const MutableByteSpan share = shares[i].subspan(at, size);
      std::copy_n(secret.data() + at, size, share.data());
      gf::inner_product(powers, rows, share);
    }
  }
  sodium_memzero(drawn.data(), drawn.size());
}

std::vector<Bytes> create_shares(const Scheme& scheme, ByteSpan secret, Random& random) {
  std::vector<Bytes> shares(scheme.servers, Bytes(secret.size()));
  const std::vector<MutableByteSpan> views(shares.begin(), shares.end());
  create_shares(scheme, secret, random, views);
  return shares;
}

Bytes quorum_points(const Scheme& scheme) {
  Bytes points(scheme.quorum());
  std::iota(points.begin(), points.end(), std::uint8_t{1});
  return points;
}

namespace {

Bytes weighed(ByteSpan weights, std::span<const ByteSpan> shares) {
  assert(!shares.empty() && weights.size() == shares.size());
  std::vector<const std::uint8_t*> rows;
  for (const ByteSpan share : shares) {
    assert(share.size() == shares[0].size());
    rows.push_back(share.data());
  }
  Bytes sum(shares[0].size());
  gf::inner_product(weights, rows, sum);
  return sum;
}

}  // namespace

Bytes recover(ByteSpan points, std::span<const ByteSpan> shares) {
  return weighed(lagrange_at_zero(points), shares);
}

// The value of a polynomial at x is the value at 0 of the polynomial shifted by x.
Bytes lagrange_at(std::uint8_t at, ByteSpan points) {
  Bytes shifted(points.begin(), points.end());
  for (std::uint8_t& point : shifted) point ^= at;
  return lagrange_at_zero(shifted);
}

Bytes recover_at(std::uint8_t at, ByteSpan points, std::span<const ByteSpan> shares) {
  return weighed(lagrange_at(at, points), shares);
}

Bytes unit_vector(std::size_t length, std::size_t index) {
  Bytes unit(length);
  // Uses arithmetic, not addresses, because the index is the secret of the access.
  for (std::size_t i = 0; i < length; ++i) unit[i] = static_cast<std::uint8_t>(i == index);
  return unit;
}

std::vector<Bytes> create_query(const Scheme& scheme, std::size_t length, std::size_t index,
                                Random& random) {
  Bytes unit = unit_vector(length, index);
  auto shares = create_shares(scheme, unit, random);
  sodium_memzero(unit.data(), unit.size());
  return shares;
}

}  // namespace s3oram
