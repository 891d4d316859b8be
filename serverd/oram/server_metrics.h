// The counters and measurements of a server. They show only what its operator can see anyway, and
// nobody learns from them which blocks are used, because the server does not know that.
#pragma once

#include <array>
#include <vector>

#include "oramcore/base/async.h"
#include "oramcore/base/metrics.h"
#include "oramcore/net/transport.h"
#include "oramcore/protocol/messages.h"

namespace s3oram {

class ServerMetrics {
 public:
  explicit ServerMetrics(Metrics& metrics);

  /// Counts a request that was handled in `took`, and whether it succeeded.
  void handled(MessageType type, Duration took, bool ended_well);
  void traffic_with(Party party, const Traffic& traffic);

  Counter& evictions;
  Counter& healed_slots;
  Histogram& sync_seconds;
  Gauge& store_bytes;
  Gauge& free_bytes;
  Gauge& damaged_buckets;
  Gauge& tree_height;

 private:
  struct Kind {
    Counter* requests = nullptr;
    Counter* failures = nullptr;
    Histogram* seconds = nullptr;  // null for most kinds
  };
  Metrics& metrics_;
  std::vector<Kind> kinds_;  // by MessageType; index 0 is for unknown types
};

}  // namespace s3oram
