// (t, l)-threshold Shamir secret sharing over GF(2^8) (Algorithm 1 of the S3ORAM paper), applied to
// vectors byte by byte, and what is built on it: the select scheme (Algorithm 5) and the degree
// reduction of the secure multiplication protocol (Protocol 1).
//
// Server i (1..l) has the evaluation point x_i = i.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "oramcore/base/bytes.h"
#include "oramcore/base/error.h"
#include "oramcore/base/random.h"

namespace s3oram {

/// The privacy threshold t (any t servers together learn nothing) and the number of servers l, with
/// l >= 2t + 1 and t >= 1.
struct Scheme {
  std::uint8_t threshold = 1;
  std::uint8_t servers = 3;

  /// Returns how many answers of degree 2t recover a product; this is also how many servers
  /// multiply.
  std::size_t quorum() const { return 2 * std::size_t{threshold} + 1; }
  /// Checks these numbers. Errors: usage.
  Status check() const;
  friend bool operator==(const Scheme&, const Scheme&) = default;
};

/// SSS.Create: writes the share of server i to shares[i - 1]. All spans have secret.size() bytes; t
/// * secret.size() random bytes are drawn.
void create_shares(const Scheme& scheme, ByteSpan secret, Random& random,
                   std::span<const MutableByteSpan> shares);
/// Creates the shares in l new vectors.
std::vector<Bytes> create_shares(const Scheme& scheme, ByteSpan secret, Random& random);

/// Returns the Lagrange coefficients at 0 for these distinct nonzero points: the first row of the
/// inverse Vandermonde matrix, V^-1[1, *].
Bytes lagrange_at_zero(ByteSpan points);

/// Returns the Lagrange coefficients at the point `at`.
Bytes lagrange_at(std::uint8_t at, ByteSpan points);

/// Returns the points of the servers that answer and multiply: 1 to quorum().
Bytes quorum_points(const Scheme& scheme);

/// SSS.Recover: returns the secret from shares[i] taken at points[i]. Needs at least degree + 1
/// points, and uses all that are given.
Bytes recover(ByteSpan points, std::span<const ByteSpan> shares);

/// Returns the share of server `at` from those of other servers.
Bytes recover_at(std::uint8_t at, ByteSpan points, std::span<const ByteSpan> shares);

/// Returns `length` elements with a one at `index`, or zeros if `index` is `length` or more.
Bytes unit_vector(std::size_t length, std::size_t index);

/// PIR.CreateQuery: returns shares of the unit vector of `length` elements with a one at `index`.
/// An index of `length` or more gives shares of the zero vector, for an access that asks for
/// nothing.
std::vector<Bytes> create_query(const Scheme& scheme, std::size_t length, std::size_t index,
                                Random& random);

}  // namespace s3oram
