// Runs one attempt at an eviction, up to its decision: makes the servers prepare it and, if the
// scheme checks the results, certify it (docs/protocol.md, "One eviction").
#pragma once

#include "oramcore/client/stragglers.h"
#include "oramcore/client/suspects.h"

namespace s3oram {

/// An attempt at an eviction whose check failed.
struct Dispute {
  std::shared_ptr<ReportCheck> check;
  std::vector<Payload> reports;
  std::uint64_t contents = 0;  // Contents::changed when servers were given their orders
};

/// One executor; not thread-safe.
class Preparer {
 public:
  Preparer(VolumeState& state, Attendance& attendance)
      : state_(state),
        attendance_(attendance),
        stragglers_(state, attendance),
        suspects_(state.servers.count(), state.params.scheme.threshold) {}

  /// Gives the servers their orders and waits until all have prepared. `tries` is the number of
  /// earlier attempts. After a failure, no server has the attempt. Errors: servers_disagree (the
  /// check failed, or a server refuses its part), and those that may pass (Troubles::may_pass()).
  Task<Status> prepare(const EvictionPlan& plan, EvictionId& id, unsigned next_height,
                       unsigned tries);
  /// Makes the servers certify what they have prepared. Call it when all have prepared: the results
  /// of a server that lies are then fixed before it knows what it is asked. After a failure, no
  /// server has the attempt. Does without a server that lies, if it can be found and others suffice
  /// (unreachable: try again without it). Errors: those of prepare().
  Task<Status> certify(const EvictionPlan& plan, EvictionId id);
  Task<Status> discard(EvictionId id);
  /// Returns whether the last attempt was ended because it took too long, although every server
  /// was there.
  bool was_withheld() const { return withheld_; }
  /// Sends a message about an eviction to all servers that take part, and waits for them. Returns
  /// the first error of a server that is not left out by the time it fails.
  Task<Status> tell_all(MessageType type, Bytes message) {
    return stragglers_.ask_all(type, std::move(message));
  }
  /// Returns the dispute of the last attempt, if its check failed; only once.
  std::optional<Dispute> take_dispute() { return std::exchange(dispute_, std::nullopt); }

 private:
  struct CheckWork;
  template <class Check>
  Task<void> expect(std::shared_ptr<Check> check, std::shared_ptr<CheckWork> work);
  using Attempt = std::weak_ptr<Servers::JointAttempt>;
  std::shared_ptr<std::string> bound(Attempt attempt, Bytes takers, EvictionId id, unsigned tries);
  Task<void> end_if_stuck(Attempt attempt, Bytes takers, EvictionId id,
                          std::shared_ptr<std::string> ended);
  Task<void> end(Attempt attempt, Bytes takers, EvictionId id);
  Task<void> end_late(Attempt attempt, Bytes takers, EvictionId id,
                      std::shared_ptr<std::string> ended, Duration patience);
  Task<Status> prepare_at(Party server, Bytes message, EvictionId id,
                          std::shared_ptr<Servers::JointAttempt> attempt,
                          std::shared_ptr<Stragglers::Question> question, Status& outcome,
                          Payload& report);
  Task<Result<CertifyAnswer>> ask_to_certify(Party server, Bytes question,
                                             std::shared_ptr<Stragglers::Question> asked);
  void note_damage(Party server, MessageType asked, const Error& answer);
  Task<Status> after_failed_check(EvictionId id, Bytes members, RowsVerdict verdict);
  bool do_without_proven(const Error& found);
  bool do_without_odd(const Bytes& members, const RowsVerdict& verdict);
  Task<Status> certify_new_rows(EvictionId id, const CertifyAnswer& right, Bytes servers,
                                std::vector<Result<CertifyAnswer>> answers);

  VolumeState& state_;
  Attendance& attendance_;
  Stragglers stragglers_;
  Suspects suspects_;
  // Of the last attempt.
  std::optional<Dispute> dispute_;
  bool withheld_ = false;
  unsigned tries_ = 0;
  Bytes workers_;
};

}  // namespace s3oram
