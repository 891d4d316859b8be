// Brings a server of a mirror that was left out to where it lacks nothing, while the volume is in
// use: opens the session there, has it take up the present tree version between two evictions
// (RejoinRequest), sends it all that is written from then on, and has the servers in step send it
// the buckets and root writes that it lacks. What it was sent is compared with what others hold.
//
// A server whose store was lost is re-enrolled first. Can be cut short at any point: what was
// copied stays, and counts the next time.
#pragma once

#include <functional>
#include <map>

#include "oramcore/client/client_state.h"
#include "oramcore/client/in_step.h"
#include "oramcore/client/servers.h"
#include "oramcore/client/volume_engine.h"

namespace s3oram {

/// Where a server is to rejoin the volume.
struct Rejoining {
  Party server = 0;
  Bytes sources;  // t + 1 servers, which describe the tree version
  Session session;
  TreeState tree;
  std::vector<std::uint64_t> root;  // as in RejoinRequest
  Duration limit{};                 // in all
};

/// Has a server, which has opened the session, take up the tree version. Where the sources do not
/// agree on what a bucket holds, or whether there is one, it counts as lacked. Returns how many
/// buckets the server lacks. Errors: unreachable (also after `limit`), corrupt (nonsense).
Task<Result<std::uint64_t>> rejoin(const ClientEnvironment& environment, Servers& servers,
                                   const VolumeParams& params, Rejoining rejoining);

/// One executor; not thread-safe.
class CatchUp {
 public:
  /// What the owner of the volume's state does.
  struct Owner {
    /// Waits until no eviction is under way, and lets none begin until let_evict().
    std::function<Task<void>()> hold_evictions;
    std::function<void()> let_evict;
    std::function<const TreeState&()> tree;
    /// OpenRequest::root
    std::function<std::vector<std::uint64_t>()> root;
    /// Waits until all root writes that were begun by now count.
    std::function<Task<Status>()> await_writes;
    /// Asks the server for slots that it lacks, at most some of them, heals them, and compares
    /// their buckets with those of the servers in step. Returns how many there were.
    std::function<Task<Result<std::size_t>>(Party)> copy_some;
  };
  CatchUp(const ClientEnvironment& environment, const VolumeParams& params, Servers& servers,
          InStep& in_step, Owner owner)
      : environment_(environment),
        params_(params),
        servers_(servers),
        in_step_(in_step),
        owner_(std::move(owner)) {}

  /// Afterwards the server follows and lacks nothing. Errors: unreachable, wrong_volume, ...
  Task<Status> run(Party server, const Session& session);
  /// How far a server is that catches up.
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
