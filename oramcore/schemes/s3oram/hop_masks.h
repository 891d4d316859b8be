// The digests of a shuffle's masks, which the client computes itself (hop_check.h), because a
// server that computed them could falsify two lists that meet in one equation.
#pragma once

#include "oramcore/protocol/shuffle_streams.h"
#include "oramcore/schemes/s3oram/eviction_orders.h"

namespace s3oram {

/// Draws all masks of the shuffle described by `orders`, tile by tile; this is work for a separate
/// thread. A pure function.
HopMasks make_hop_masks(const VolumeParams& params, const EvictionOrders& orders,
                        const ShuffleAttempt& attempt);

}  // namespace s3oram
