// The session of a ring with its server: compares the server with the vault, opens the session, and
// brings a server that was restarted to the client's tree version.
#pragma once

#include <vector>

#include "oramcore/schemes/ring/client/rewriter.h"

namespace s3oram::ring {

/// One executor; not thread-safe.
class RingSession {
 public:
  RingSession(OpenRing& ring, RingCommitter& committer, const Rewriter& rewriter)
      : ring_(ring), committer_(committer), rewriter_(rewriter) {}

  /// Refuses an old copy of the vault before the new epoch would shut out the newest one. Errors:
  /// stale_vault, wrong_volume (the server was set back), unreachable ...
  Task<Status> compare_with_server(const RingState::Loaded& loaded, Duration patience);
  /// Opens OpenRing::session, which follows the known ones (ascending by epoch), at the server.
  Task<Status> open(std::vector<Session> known, Duration patience);
  /// Asks for something that is done already. The answer shows, without an access, whether the
  /// server was restarted or now belongs to another client.
  void probe();

 private:
  Task<void> probe_once();
  Task<Result<SurveyAnswer>> survey(Duration patience);
  Task<Status> bring_server_along(OpenAnswer answer, Duration patience);

  OpenRing& ring_;
  RingCommitter& committer_;
  const Rewriter& rewriter_;
  bool probing_ = false;
};

}  // namespace s3oram::ring
