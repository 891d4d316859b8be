// The orders that tell each server its part of an eviction's plan: shares of matrices, or
// permutations and seeds.
#pragma once

#include "oramcore/base/random.h"
#include "oramcore/protocol/hop_check.h"
#include "oramcore/protocol/messages.h"
#include "oramcore/protocol/plan.h"
#include "oramcore/protocol/signed_hops.h"

namespace s3oram {

struct EvictionOrders {
  std::vector<Bytes> messages;  // PrepareRequest::orders for servers 1 to l
  // For a shuffle: how the permutation is split, what all roles together are told, and which server
  // plays role 1.
  HopPlan hops;
  SignedShuffleOrders shuffle;  // `sign` belongs to no server; it says whether they sign
  Party first_server = 1;

  /// Roles are numbered 1 to 3, as in hop_check.h.
  unsigned role_of(Party server) const { return (server + 3u - first_server) % 3 + 1; }
  Party server_of(unsigned role) const {
    return static_cast<Party>((first_server + role - 2) % 3 + 1);
  }
};

/// Makes orders from fresh randomness. Any t servers' orders are independent of the plan. `tries`
/// is the number of earlier attempts at this eviction; the roles of a shuffle that is checked
/// rotate with it. With `sign`, servers sign what they pass on in such a shuffle.
EvictionOrders eviction_orders(const VolumeParams& params, const EvictionPlan& plan, Random& random,
                               unsigned tries = 0, bool sign = false);

}  // namespace s3oram
