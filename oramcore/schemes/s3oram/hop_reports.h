// What servers report of a shuffle that is checked (hop_check.h), as messages, and what follows.
#pragma once

#include <span>

#include "oramcore/base/error.h"
#include "oramcore/net/transport.h"
#include "oramcore/schemes/s3oram/eviction_orders.h"

namespace s3oram {

/// Checks what servers passed on to each other under `orders`. `masks` are theirs; reports[i] is
/// the answer of server i + 1 to its prepare. A pure function. Errors: servers_disagree, with the
/// hops that do not hold.
Status check_hops(const EvictionOrders& orders, const HopMasks& masks,
                  std::span<const Payload> reports);

}  // namespace s3oram
