// Lets servers leave a mirror and come back while its volume is open (attendance.h, catch_up.h).
#pragma once

#include "oramcore/client/attendance.h"
#include "oramcore/client/catch_up.h"
#include "oramcore/client/eviction_gate.h"
#include "oramcore/client/healer.h"
#include "oramcore/client/root_writer.h"

namespace s3oram {

/// One executor; not thread-safe.
class ReturningServers {
 public:
  ReturningServers(VolumeState& state, Committer& committer, SlotShares& slots, HealingTurn& turn,
                   Settler& settler, Healer& healer, RootWriter& root_writer, EvictionGate& gate);

  Attendance& attendance() { return attendance_; }
  const Attendance& attendance() const { return attendance_; }
  CatchUpProgress progress(Party server) const { return catch_up_.progress(server); }

 private:
  Attendance::Owner attendance_owner();
  CatchUp::Owner catch_up_owner();
  Task<Status> commit_left_out();
  Task<Status> catch_up(Party server);
  Task<Result<std::size_t>> copy_some(Party server);
  Task<Result<std::size_t>> copy_damage(Party server);

  VolumeState& state_;
  Committer& committer_;
  SlotShares& slots_;
  HealingTurn& turn_;
  Settler& settler_;
  Healer& healer_;
  RootWriter& root_writer_;
  EvictionGate& gate_;
  Attendance attendance_;
  CatchUp catch_up_;
};

}  // namespace s3oram
