// Shares of which some are expanded from seeds (Privacy::computational), so that a seed is sent
// instead of the bytes. Every seed is fresh and used for only one purpose.
#pragma once

#include "oramcore/sharing/shamir.h"

namespace s3oram {

/// Returns the bytes that `seed` expands to. `purpose` and `number` bind them to their use.
Bytes expand(const Seed& seed, std::string_view purpose, std::uint64_t number, std::size_t size);

/// Returns the shares of servers t + 1 to l, given those of servers 1 to t, which may be any bytes.
/// The shares are values of the polynomial of degree t through the given shares and the secret.
std::vector<Bytes> complete_shares(const Scheme& scheme, ByteSpan secret,
                                   std::span<const Bytes> first);

// For t = 1 and l = 3, a secret can be the sum of three parts, of which server i has all except
// part i. Any two of the three may be random. From its parts server i computes its Shamir share, on
// the line
//   f(x) = sum over j of part j * (1 + x / j),
// for which f(0) is the secret, and in which part i contributes nothing at x = i.

/// Returns the weight of part `part` in the share of server `server`.
std::uint8_t part_weight(std::uint8_t part, std::uint8_t server);

}  // namespace s3oram
