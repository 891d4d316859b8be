// Computes what every role would have sent and reported in an attempt at a shuffle if all had
// followed their orders. The client needs this when it has to find out who did not
// (hop_suspects.h): it knows the orders, and has read all shares of the path.
#pragma once

#include "oramcore/client/client_scheme.h"
#include "oramcore/protocol/shuffle_streams.h"
#include "oramcore/schemes/s3oram/eviction_orders.h"

namespace s3oram {

struct HonestRun {
  HopReports reports;
  std::array<std::vector<Digest>, kShuffleHops.size()> sent;  // hop_hash() by hop and tile
};

/// Any thread. The orders must be those of a shuffle that is checked, and each slot's shares must
/// lie on a line.
HonestRun run_honestly(const VolumeParams& params, const EvictionOrders& orders,
                       const ShuffleAttempt& attempt, const PathShares& shares);

}  // namespace s3oram
