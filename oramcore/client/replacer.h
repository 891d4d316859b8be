// Replaces a server with another machine or with an empty store, while the volume is open.
#pragma once

#include "oramcore/client/attendance.h"
#include "oramcore/client/committer.h"
#include "oramcore/client/eviction_gate.h"

namespace s3oram {

/// One executor; not thread-safe.
class Replacer {
 public:
  Replacer(VolumeState& state, Committer& committer, Attendance& attendance, EvictionGate& gate)
      : state_(state), committer_(committer), attendance_(attendance), gate_(gate) {}

  /// Implements VolumeEngine::replace().
  Task<Result<std::vector<Party>>> replace(VolumeEngine::Replacement replacement);

 private:
  Task<void> tell_later(Party server, std::string peer);
  Task<Status> reenrol(Party server);
  Task<Status> tell_of_volume(Party server);

  VolumeState& state_;
  Committer& committer_;
  Attendance& attendance_;
  EvictionGate& gate_;
};

}  // namespace s3oram
