// Shares of which some come from seeds (Privacy::computational): whoever has the seed need not be
// sent the bytes. Every seed is fresh and used for one purpose.
#pragma once

#include "oramcore/sharing/shamir.h"

namespace s3oram {

/// The bytes that `seed` stands for. `number` binds them to what they are used for.
Bytes expand(const Seed& seed, std::string_view purpose, std::uint64_t number, std::size_t size);

/// The shares of servers t + 1 to l, given those of servers 1 to t, which may be any bytes: the
/// polynomial of degree t through them and the secret.
std::vector<Bytes> complete_shares(const Scheme& scheme, ByteSpan secret,
                                   std::span<const Bytes> first);

// For t = 1 and l = 3 a secret can be the sum of three parts, of which server i has all but part i.
// Any two of the three may be random. What server i has gives its Shamir share, on the line
//   f(x) = sum over j of part j * (1 + x / j),  f(0) = the secret, and part i does not count at i.

/// The weight of part `part` in the share of server `server`.
std::uint8_t part_weight(std::uint8_t part, std::uint8_t server);

}  // namespace s3oram
