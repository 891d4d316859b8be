// The reports of servers about a shuffle, and their interpretation (hop_check.h).
#pragma once

#include <array>
#include <span>

#include "oramcore/net/transport.h"
#include "oramcore/schemes/s3oram/eviction_orders.h"

namespace s3oram {

struct ShuffleReports {
  HopReports of;
  std::array<std::vector<HopReceipt>, 3> receipts;  // receipts of a signed attempt, by role from 1
  Party none_of = 0;                                // a server without a valid report; 0 if none
};

/// Reads `reports`, each server's PrepareAnswer.
ShuffleReports read_reports(const VolumeParams& params, const EvictionOrders& orders,
                            std::span<const Payload> reports);

/// Checks the reports against the orders. Errors: servers_disagree, naming the hops that fail.
Status check_hops(const EvictionOrders& orders, const HopMasks& masks,
                  const ShuffleReports& reports);

}  // namespace s3oram
