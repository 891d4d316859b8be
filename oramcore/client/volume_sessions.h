// The sessions of a volume with its servers: finds the servers, compares them with the vault, opens
// the session at each, and brings a server that was restarted to the client's tree version.
#pragma once

#include <set>

#include "oramcore/client/attendance.h"
#include "oramcore/client/committer.h"
#include "oramcore/client/eviction_loop.h"

namespace s3oram {

/// One executor; not thread-safe.
class VolumeSessions {
 public:
  VolumeSessions(VolumeState& state, Committer& committer, Attendance& attendance,
                 const EvictionLoop& evictions)
      : state_(state), committer_(committer), attendance_(attendance), evictions_(evictions) {}

  /// Returns the servers to open the volume with. Errors: unreachable.
  Task<Result<std::set<Party>>> find_servers(Duration patience);
  /// Refuses an old copy of the vault before the new epoch would shut out the newest one. Also asks
  /// the servers for what a damaged access record no longer says: whose write is in its root slot.
  /// A server that is away is taken to know no more than this vault. A server that was left out may
  /// lag behind: what it holds does not count, unless it shows that the server knows more than this
  /// vault does.
  Task<Status> compare_with_servers(ClientState::Loaded& loaded, std::set<Party> answering,
                                    Duration patience);
  /// Opens VolumeState::session at the servers that answer. Leaves out those that fail, if they may
  /// be.
  Task<Status> open(std::vector<Session> known, const std::set<Party>& answering,
                    Duration patience);
  /// Asks each server for something that is done already. The answer shows, without an access,
  /// whether the server was restarted or now belongs to another client.
  void probe();

 private:
  Task<void> probe(Party server);
  Task<Status> bring_to_version(Party server, OpenAnswer stands, Duration patience);

  VolumeState& state_;
  Committer& committer_;
  Attendance& attendance_;
  const EvictionLoop& evictions_;
  std::set<Party> probed_;  // servers that have not answered a probe yet
};

}  // namespace s3oram
