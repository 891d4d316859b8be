// What every role would have sent and reported in an attempt at a shuffle, had all kept to their
// orders. The client computes it when it must know who did not (hop_suspects.h): it knows the
// orders, and has read all shares of the path.
#pragma once

#include "oramcore/client/scheme.h"
#include "oramcore/protocol/shuffle_streams.h"
#include "oramcore/schemes/s3oram/eviction_orders.h"

namespace s3oram {

struct HonestRun {
  HopReports reports;
  std::array<std::vector<Digest>, kShuffleHops.size()> sent;  // hop_hash() by hop and tile
};

/// Any thread. The orders are those of a shuffle that is checked; each slot's shares lie on a line.
HonestRun run_honestly(const VolumeParams& params, const EvictionOrders& orders,
                       const ShuffleAttempt& attempt, const PathShares& shares);

}  // namespace s3oram
