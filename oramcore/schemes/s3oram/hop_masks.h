// The digests of a shuffle's masks, which the client makes itself (hop_check.h): a server that made
// them could falsify two lists that meet in one equation.
#pragma once

#include "oramcore/protocol/shuffle_streams.h"
#include "oramcore/schemes/s3oram/eviction_orders.h"

namespace s3oram {

/// Draws all masks of the shuffle that `orders` are for, tile by tile: work for a thread of its
/// own. A pure function.
HopMasks make_hop_masks(const VolumeParams& params, const EvictionOrders& orders,
                        const ShuffleAttempt& attempt);

}  // namespace s3oram
