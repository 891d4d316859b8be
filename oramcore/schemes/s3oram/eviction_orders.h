// What each server is told of an eviction's plan: shares of matrices, or permutations and seeds.
#pragma once

#include "oramcore/base/random.h"
#include "oramcore/protocol/messages.h"
#include "oramcore/protocol/plan.h"

namespace s3oram {

/// PrepareRequest::orders for servers 1 to l, in fresh randomness. Any t servers' orders are
/// independent of the plan.
std::vector<Bytes> eviction_orders(const VolumeParams& params, const EvictionPlan& plan,
                                   Random& random);

}  // namespace s3oram
