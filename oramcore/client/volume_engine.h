// What an open volume needs of the engine of its scheme: a block device that is opened and closed,
// says how it is, and looks at everything that the servers hold.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "oramcore/base/async.h"
#include "oramcore/base/metrics.h"
#include "oramcore/client/in_step.h"
#include "oramcore/client/servers.h"
#include "oramcore/db/finding.h"
#include "oramcore/oram/queued_device.h"

namespace s3oram {

/// What an engine uses and does not own. All of it must outlive the engine.
struct ClientEnvironment {
  Executor executor;  // the engine's own: one thread
  Executor database;  // one thread, for SQLite
  Executor pool;      // for arithmetic, and files beside the database
  Clock& clock;
  Random& random;
  Transport& transport;
  Metrics& metrics = unread_metrics();
};

/// Of a volume whose client keeps the top of the tree (ring).
struct TopStatus {
  std::uint64_t blocks = 0, slots = 0;      // in top.cache, and how many it is made for
  std::uint64_t bytes = 0;                  // that many slots take
  std::uint64_t log_slots = 0;              // of the log at the server
  std::uint64_t not_synced = 0;             // writes that a power cut would have read from the log
  std::uint64_t most_evictions_behind = 0;  // that may be due before accesses wait
};

struct EngineStatus {
  struct Server {
    std::optional<Duration> silent_for;  // how long it has not answered
    std::optional<Trouble> trouble;      // with its disk or its store
    std::optional<Servers::Stall> stall;
    Standing standing = Standing::in_step;
    CatchUpProgress catching_up;  // while it follows
  };
  std::uint64_t blocks = 0, capacity = 0, accesses = 0, evictions = 0, stash = 0, uncommitted = 0;
  unsigned height = 0;
  bool evicting = false;
  std::uint64_t evictions_due = 0;  // full groups of root writes, one of which may be under way
  Duration evicting_for{};
  std::uint64_t unreadable = 0;  // blocks that could not be read when they were last asked for
  std::string failure;           // why the volume cannot go on; or empty
  std::optional<Error> evictions_stopped;  // why none is begun any more
  std::optional<Trouble> database;         // commits of vault.db fail
  Duration committing_for{};               // the commit under way
  std::optional<TopStatus> top;
  std::vector<Server> servers;  // from 1
};

struct Healed {
  std::map<Party, std::uint64_t> shares;  // by server: slots that have their share again
  std::uint64_t lost = 0;                 // slots of which too few servers had a share
  std::string hindrance;                  // why servers could not send each other shares; or empty
  std::uint64_t total() const;
  Healed since(const Healed& before) const;
};

/// Everything but the device's methods runs on the engine's executor.
class VolumeEngine : public QueuedDevice {
 public:
  /// Loads the state, raises the epoch, opens the session with every server and finishes accesses
  /// that a crash cut short. Without evictions the engine moves nothing, for a caller who only
  /// looks at the volume; accesses soon have to wait.
  enum class Evictions { as_due, none };
  virtual Task<Status> open(Duration patience, Evictions evictions = Evictions::as_due) = 0;
  /// Commits everything acknowledged (unless told not to), stops, and waits until all coroutines
  /// have ended. Accesses that have not ended by then fail.
  virtual Task<Status> close(bool with_commit = true) = 0;
  virtual EngineStatus status() const = 0;
  /// Reports how many buckets have been checked, and of how many.
  using ScrubProgress =
      std::function<void(std::uint64_t looked_at, std::uint64_t of, const Healed& so_far)>;
  /// Has these servers (all, if `servers` is empty) check every slot that they hold, and heals
  /// damaged ones. If all servers take part, also settles slots whose shares do not fit together.
  /// Leaves lost slots as they are. Accesses go on meanwhile. Errors: disk_full (a server has no
  /// room for the tree).
  virtual Task<Result<Healed>> scrub(std::set<Party> servers, ScrubProgress progress = {}) = 0;
  /// A server gets another address, another key, an empty store, or all of these.
  struct Replacement {
    Party server = 0;
    /// Makes the vault and the transport use the new one. Called once nothing counts on what only
    /// the former one holds.
    std::function<Status()> exchange;
    std::string peer;  // PeerRequest::peer
  };
  /// Replaces a server while accesses go on, or wait where the scheme needs all servers. The new
  /// one is told of the volume and, in a mirror, is sent what it lacks. The other servers are told
  /// of it; those that do not answer are told as long as the volume is open, and are returned. In
  /// other schemes its shares count as damaged: a scrub of it heals them. Errors: unsupported
  /// (there is one copy of everything), unreachable (too few others have all data), those of
  /// `exchange`.
  virtual Task<Result<std::vector<Party>>> replace(Replacement replacement) {
    static_cast<void>(replacement);
    co_return fail(Errc::unsupported, "a ring has one copy of everything, at its one server");
  }
  /// Returns what each server has sent and received, if it answers soon. Starts opening the session
  /// again where that is needed.
  virtual Task<std::vector<Result<TrafficAnswer>>> server_traffic() = 0;

 protected:
  using QueuedDevice::QueuedDevice;
};

/// Reports damaged rows of vault.db that an engine leaves out.
void log_findings(const Findings& findings);

}  // namespace s3oram
