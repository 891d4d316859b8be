// What each server is told of an eviction's plan: shares of matrices, or permutations and seeds.
#pragma once

#include "oramcore/base/random.h"
#include "oramcore/schemes/s3oram/protocol/hop_check.h"
#include "oramcore/schemes/s3oram/protocol/messages.h"
#include "oramcore/schemes/s3oram/protocol/plan.h"

namespace s3oram {

struct EvictionOrders {
  std::vector<Bytes> messages;  // PrepareRequest::orders for servers 1 to l
  // Of a shuffle: how the permutation is split, and who plays role 1.
  HopPlan hops;
  Party first_server = 1;
};

/// Orders in fresh randomness. Any t servers' orders are independent of the plan. `tries`: how many
/// attempts at this eviction there were before; a shuffle's roles go round with it.
EvictionOrders eviction_orders(const VolumeParams& params, const EvictionPlan& plan, Random& random,
                               unsigned tries = 0);

}  // namespace s3oram
