// One attempt at an eviction, up to its decision: has the servers prepare it and, where the scheme
// checks what they have made, certify it (docs/protocol.md, "One eviction").
#pragma once

#include "oramcore/client/attendance.h"
#include "oramcore/client/volume_state.h"

namespace s3oram {

/// An attempt at an eviction whose check was not good.
struct Dispute {
  std::shared_ptr<ReportCheck> check;
  std::vector<Payload> reports;
  std::uint64_t contents = 0;  // Contents::changed when servers were given their orders
};

/// One executor; not thread-safe.
class Preparer {
 public:
  Preparer(VolumeState& state, Attendance& attendance) : state_(state), attendance_(attendance) {}

  /// Gives the servers their orders and waits until all have prepared. `tries` attempts came
  /// before. Otherwise no server has the attempt any more. Errors: servers_disagree (the check was
  /// not good, or a server refuses its part), those that pass.
  Task<Status> prepare(const EvictionPlan& plan, EvictionId& id, unsigned next_height,
                       unsigned tries);
  /// All have prepared: what a server that lies has made is fixed before it knows what it is asked.
  /// Otherwise no server has the attempt any more. Errors: as of prepare().
  Task<Status> certify(const EvictionPlan& plan, EvictionId id);
  Task<Status> discard(EvictionId id);
  /// Returns what the last attempt's check found, once.
  std::optional<Dispute> take_dispute() { return std::exchange(dispute_, std::nullopt); }

 private:
  struct Stage;
  struct CheckWork;
  std::shared_ptr<Stage> begin_stage() const;
  void answered(const std::shared_ptr<Stage>& stage, Party server);
  Task<void> drop_late(std::shared_ptr<Stage> stage);
  Task<void> expect_reports(std::shared_ptr<ReportCheck> check, std::shared_ptr<CheckWork> work);
  Task<Status> prepare_at(Party server, Bytes message, EvictionId id,
                          std::shared_ptr<Servers::JointAttempt> attempt,
                          std::shared_ptr<Stage> stage, Status& outcome, Payload& report);
  Task<Result<CertifyAnswer>> ask_to_certify(Party server, Bytes question,
                                             std::shared_ptr<Stage> stage);
  Task<Status> certify_new_rows(EvictionId id, const CertifyAnswer& right, Bytes servers,
                                std::vector<Result<CertifyAnswer>> answers);

  VolumeState& state_;
  Attendance& attendance_;
  std::optional<Dispute> dispute_;  // the last attempt's
};

}  // namespace s3oram
