// Collects the servers' marks of what an eviction has written (docs/protocol.md, "Share marks").
// Nothing depends on the marks until a repair, so a server that gives none, or wrong ones, changes
// nothing in the eviction.
#pragma once

#include "oramcore/base/log_limit.h"
#include "oramcore/client/volume_state.h"

namespace s3oram {

/// One executor; not thread-safe.
class Marker {
 public:
  explicit Marker(VolumeState& state) : state_(state) {}

  /// Asks all servers for the marks of the eviction that they have prepared, and returns a row for
  /// each bucket that it writes, without the marks of servers that do not answer within a minute;
  /// no row if the scheme keeps no marks. Call it before the decision,
  /// which must commit with the rows.
  Task<std::map<BucketIndex, MarkRow>> collect(EvictionId id);

 private:
  VolumeState& state_;
  LogLimit told_;
};

}  // namespace s3oram
