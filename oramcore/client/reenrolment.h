// Has servers whose stores are lost take their places in the volume again: a session with all
// others, brought to the client's view, tells which buckets there are. From then on the volume can
// be opened; the shares of those servers are all damaged, and healed like any (engine_heal.cc).
#pragma once

#include <set>
#include <vector>

#include "oramcore/client/engine.h"
#include "oramcore/client/servers.h"

namespace s3oram {

/// Used once. One executor; not thread-safe.
class Reenrolment {
 public:
  /// `state` has been opened; afterwards it can be loaded again. Both must outlive it. A message
  /// tells of `part` buckets at the most.
  Reenrolment(const ClientEnvironment& environment, const VolumeId& volume,
              const VolumeParams& params, ClientState& state,
              std::uint32_t part = LayoutRequest::kMost);

  /// Whether the others know enough. Errors: damaged_vault.
  static Status check_enough(const VolumeParams& params, std::size_t lost);

  /// `lost` hold no volume; the others, t + 1 at least, have the newest view or the one before. It
  /// can be cut short at any point, and begun anew. Errors: unreachable, stale_vault, wrong_volume,
  /// unsupported (a server is of a version that cannot do this), damaged_vault (too many are lost),
  /// corrupt (the others do not agree).
  Task<Status> run(std::set<Party> lost, Duration patience);
  /// run() ends soon, with shutting_down.
  void stop() { servers_.stop(); }

 private:
  Task<Status> open(const std::set<Party>& lost, std::vector<Session> known, Duration patience);
  using Buckets = std::vector<BucketShape>;
  Task<Result<Buckets>> layout(const std::set<Party>& lost, Duration patience);
  Task<Result<Buckets>> layout_at(Party server, Duration patience);
  Task<Status> tell(Party server, const Buckets& buckets, Duration patience);

  ClientEnvironment environment_;
  VolumeId volume_;
  VolumeParams params_;
  ClientState& state_;
  std::uint32_t part_;
  Servers servers_;
  TreeState tree_;
  std::vector<std::uint64_t> root_;  // as in OpenRequest
  Session session_;
};

}  // namespace s3oram
