// The interface between an open volume and the engine of its scheme: a block device that can be
// opened and closed, reports its status, and checks everything that the servers hold.
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

/// The objects that an engine uses and does not own. All of them must outlive the engine.
struct ClientEnvironment {
  Executor executor;  // the engine's own: one thread
  Executor database;  // one thread, for SQLite
  Executor pool;      // for arithmetic, and files beside the database
  Clock& clock;
  Random& random;
  Transport& transport;
  Metrics& metrics = unread_metrics();
};

/// The state of the top of the tree, for a scheme whose client keeps it (ring).
struct TopStatus {
  std::uint64_t blocks = 0, slots = 0;      // blocks in top.cache, planned slots
  std::uint64_t bytes = 0;                  // size of the planned slots
  std::uint64_t log_slots = 0;              // slots in the log at the server
  std::uint64_t not_synced = 0;             // writes to be read from the log after a power cut
  std::string trouble;                      // why top.cache cannot be written or synced; or empty
  std::uint64_t most_evictions_behind = 0;  // evictions that may be due before accesses wait
};

struct EngineStatus {
  struct Server {
    std::optional<Duration> silent_for;  // how long the server has not answered
    std::optional<Trouble> trouble;      // trouble with the server's disk or store
    std::optional<Servers::Stall> stall;
    Standing standing = Standing::in_step;
    CatchUpProgress catching_up;  // while the server catches up
    std::set<Party> cut_from;     // servers to which its lines are cut
    bool unrepaired = false;      // a repair of the server was begun and has not ended
    bool lacks_room = false;      // its disk has no room for a larger tree
    bool uses_reserve = false;    // its disk is full, and it uses the room that it kept back
  };
  std::uint64_t blocks = 0, capacity = 0, accesses = 0, evictions = 0, stash = 0, uncommitted = 0;
  unsigned height = 0;
  bool evicting = false;
  std::uint64_t evictions_due = 0;  // full groups of root writes, one of which may be under way
  Duration evicting_for{};
  std::uint64_t unreadable = 0;            // blocks whose last read failed
  std::string failure;                     // why the volume cannot go on; empty if it can
  std::optional<Error> evictions_stopped;  // why no more evictions are begun
  std::optional<Trouble> database;         // commits of vault.db fail
  Duration committing_for{};               // how long the commit under way has taken
  bool vault_lacks_room = false;           // the disk of vault.db is full
  std::optional<TopStatus> top;
  std::vector<Server> servers;  // the first element is server 1
};

struct Healed {
  std::map<Party, std::uint64_t> shares;  // by server: slots whose share was restored
  std::uint64_t lost = 0;                 // slots for which too few servers had a share
  std::map<Party, std::uint64_t>
      lost_at;  // by server: of these, those whose share it calls damaged
  // Buckets with restored shares of which nobody can say whether they are those of before.
  std::uint64_t unproven = 0;
  std::string hindrance;  // why servers could not send shares; or empty
  std::uint64_t total() const;
  Healed since(const Healed& before) const;
};

/// The methods of QueuedDevice may be called on any thread, all others on the engine's executor.
class VolumeEngine : public QueuedDevice {
 public:
  /// Loads the state, raises the epoch, opens the session with every server, and finishes accesses
  /// that a crash cut short. With Evictions::none the engine evicts nothing, for a caller who only
  /// reads the volume; after a few accesses, further ones wait.
  enum class Evictions { as_due, none };
  virtual Task<Status> open(Duration patience, Evictions evictions = Evictions::as_due) = 0;
  /// Commits everything acknowledged (unless told not to), stops, and waits until all coroutines
  /// have ended. Accesses that are still under way fail.
  virtual Task<Status> close(bool with_commit = true) = 0;
  virtual EngineStatus status() const = 0;
  /// Reports how many buckets have been checked, how many there are, and what was healed.
  using ScrubProgress =
      std::function<void(std::uint64_t looked_at, std::uint64_t of, const Healed& so_far)>;
  /// Makes these servers (all, if `servers` is empty) check every slot that they hold, and heals
  /// the damaged ones. If all servers take part, also settles slots whose shares contradict each
  /// other. Leaves lost slots as they are. Accesses continue meanwhile. Errors: disk_full (a server
  /// has no room for the tree).
  virtual Task<Result<Healed>> scrub(std::set<Party> servers, ScrubProgress progress = {}) = 0;
  /// Gives a server another address, another key, an empty store, or all of these.
  struct Replacement {
    Party server = 0;
    /// Makes the vault and the transport use the new server. Called when nothing still depends on
    /// data that only the previous server holds.
    std::function<Status()> exchange;
    std::string peer;  // PeerRequest::peer
  };
  /// Replaces a server while accesses continue, or while they wait if the scheme needs all servers.
  /// The new server is told about the volume; in a mirror, it is also sent the data that it lacks.
  /// In other schemes its shares count as damaged, and a scrub of the server heals them. The other
  /// servers are told about the new one. Returns those that did not answer; they are told again for
  /// as long as the volume is open. Errors: unsupported (there is one copy of everything),
  /// unreachable (too few others have all data), those of `exchange`.
  virtual Task<Result<std::vector<Party>>> replace(Replacement replacement) {
    static_cast<void>(replacement);
    co_return fail(Errc::unsupported, "a ring has one copy of everything, at its one server");
  }
  /// Returns the traffic of each server that answers soon. If the session has to be opened at a
  /// server again, starts to open it.
  virtual Task<std::vector<Result<TrafficAnswer>>> server_traffic() = 0;

 protected:
  using QueuedDevice::QueuedDevice;
};

/// Returns why a volume that has ended cannot go on; empty if it is only being closed, or goes on.
std::string failure_of(const std::optional<Error>& end);

/// Logs the damaged rows of vault.db that an engine leaves out.
void log_findings(const Findings& findings);

}  // namespace s3oram
