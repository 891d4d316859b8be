// Lets a server of a mirror that was left out catch up while the volume is in use. Opens the
// session at it, makes it take up the current tree version between two evictions (RejoinRequest),
// sends it all new writes from then on, and makes the servers in step send it the buckets and root
// writes that it lacks. What the server receives is compared with what others hold.
//
// A server whose store was lost is re-enrolled first. The procedure can be interrupted at any
// point: what was copied is kept, and is not copied again.
#pragma once

#include <functional>
#include <map>

#include "oramcore/client/client_state.h"
#include "oramcore/client/in_step.h"
#include "oramcore/client/servers.h"
#include "oramcore/client/volume_engine.h"

namespace s3oram {

/// The step in which a server rejoins the volume.
struct Rejoining {
  Party server = 0;
  Bytes sources;  // t + 1 servers that describe the tree version
  Session session;
  TreeState tree;
  std::vector<std::uint64_t> root;  // as in RejoinRequest
  Duration limit{};                 // time for the whole step
};

/// Makes a server that has opened the session take up the tree version. Returns how many buckets
/// the server lacks. If the sources do not agree on whether a bucket exists or what it holds, the
/// server counts as lacking it. Errors: unreachable (also after `limit`), corrupt (an answer makes
/// no sense).
Task<Result<std::uint64_t>> rejoin(const ClientEnvironment& environment, Servers& servers,
                                   const VolumeParams& params, Rejoining rejoining);

/// One executor; not thread-safe.
class CatchUp {
 public:
  /// The actions of the owner of the volume's state.
  struct Owner {
    /// Waits until no eviction is under way, and keeps new ones from beginning until let_evict().
    std::function<Task<void>()> hold_evictions;
    std::function<void()> let_evict;
    std::function<const TreeState&()> tree;
    /// Returns the value for OpenRequest::root.
    std::function<std::vector<std::uint64_t>()> root;
    /// Waits until all root writes that have begun so far count.
    std::function<Task<Status>()> await_writes;
    /// Asks the server for some of the slots that it lacks, heals them, and compares their buckets
    /// with those of the servers in step. Returns how many slots there were.
    std::function<Task<Result<std::size_t>>(Party)> copy_some;
  };
  CatchUp(const ClientEnvironment& environment, const VolumeParams& params, Servers& servers,
          InStep& in_step, Owner owner)
      : environment_(environment),
        params_(params),
        servers_(servers),
        in_step_(in_step),
        owner_(std::move(owner)) {}

  /// Brings the server back. On success it follows and lacks nothing. Errors: unreachable,
  /// wrong_volume, ...
  Task<Status> run(Party server, const Session& session);
  /// Returns the progress of a server that catches up.
  CatchUpProgress progress(Party server) const {
    const auto found = progress_.find(server);
    return found == progress_.end() ? CatchUpProgress{} : found->second;
  }

 private:
  Task<Status> open(Party server, const Session& session);
  Task<Result<std::uint64_t>> take_up(Party server, const Session& session);
  Task<Status> copy(Party server);

  const ClientEnvironment environment_;
  const VolumeParams params_;
  Servers& servers_;
  InStep& in_step_;
  const Owner owner_;
  std::map<Party, CatchUpProgress> progress_;
};

}  // namespace s3oram
