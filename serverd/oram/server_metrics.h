// What a server counts and measures. Its operator sees all of that anyway. Nobody else learns from
// it which blocks are used, because the server does not know that.
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

  /// A request was answered after `took`, or could not be.
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
    Histogram* seconds = nullptr;  // of some kinds
  };
  Metrics& metrics_;
  std::vector<Kind> kinds_;  // by MessageType; 0: unknown ones
};

}  // namespace s3oram
