// A client and l servers in one process and one thread, over a network in memory, on disks in
// memory, each with a clock of its own. Everything that a cluster does follows from its seed.
//
// A party dies in one of two ways: kill() ends its process (what it wrote is there), cut() its
// power (what it did not sync may be lost, SimDisk). In both cases the old life goes on as a ghost
// that nobody hears, until its coroutines have ended; its callbacks are still called.
#pragma once

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "oramcore/client/engine.h"
#include "oramcore/client/rebuild.h"
#include "oramcore/client/reenrolment.h"
#include "serverd/oram/share_server.h"
#include "tests/harness/shuffled_pool.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_disk.h"

namespace s3oram::test {

class Cluster {
 public:
  /// Makes the volume. Afterwards all servers run, and the client does not.
  Cluster(const VolumeParams& params, std::uint64_t seed);
  ~Cluster();
  /// Kills all parties and waits until the ghosts have ended, so that no more callbacks come. The
  /// destructor does the same. Whatever callbacks refer to must live until then.
  void end();

  // ---- parties; a party is kClient or a server from 1

  /// Starts a server that does not run. The server does not run if this returns an error, which
  /// says why (its disk failed, or its power was cut meanwhile).
  Status try_start_server(Party server);
  void start_server(Party server) { require(try_start_server(server)); }
  /// Returns an error of the server's disk, which is not an error of the cluster; the server has
  /// ended in any case.
  Status try_stop_server(Party server);
  void stop_server(Party server) { require(try_stop_server(server)); }

  Status open_client();
  /// Does the same without waiting. After an error only kill_client() may be called. `done` is not
  /// called if the client's power is cut before.
  void begin_open_client(std::function<void(Status)> done);
  Status close_client();

  /// The party, which does not run, loses its disk with everything on it.
  void lose(Party party) { replace_disk(party, {}); }
  void lose_client() { lose(kClient); }
  /// Rebuilds the client's database from the servers (Volume::rebuild). With `beside` it does
  /// everything except store the result, and leaves the existing database in place. Like
  /// begin_open_client().
  enum class Rebuilding { in_place, beside };
  void begin_rebuild_client(std::function<void(Result<Rebuilt>)> done,
                            Rebuilding how = Rebuilding::in_place);
  Result<Rebuilt> rebuild_client(Rebuilding how = Rebuilding::in_place);
  /// Servers that have lost their disks, and run, take their places again (Reenrolment).
  void begin_reenrol(std::set<Party> lost, std::function<void(Status)> done);
  Status reenrol(std::set<Party> lost);

  /// Ends the party's process at this instant, in the middle of anything.
  void kill(Party party);
  /// Cuts the party's power at this instant. Cuts armed at its disk() do the same.
  void cut(Party party);
  void kill_server(Party server) { kill(server); }
  void kill_client() { kill(kClient); }
  /// Called when a party has died, in either way. Callbacks that come from it later belong to a
  /// ghost.
  std::function<void(Party)> on_death;
  /// Called for each durable step that a living party announces (Disk::step). Cut the party's power
  /// here, right before the step (not done) or right after it (done).
  std::function<void(Party, std::string_view name, bool done)> on_step;

  bool runs(Party party) const;
  Engine& engine() { return *client().engine; }
  /// If set, the client draws from this and not from the cluster's seed.
  Random* client_random = nullptr;
  /// Called with each new engine before it is opened, to set a participant. The returned object is
  /// destroyed after the engine, and after the engine's ghost if it becomes one.
  std::function<std::shared_ptr<void>(Engine&)> companion;

  /// Returns the disk of the party's current life (or of the next one, if it does not run).
  SimDisk& disk(Party party) { return *parties_[party]->disk; }
  /// Puts another disk into a party that does not run.
  void replace_disk(Party party, const DiskImage& image);
  /// Returns the party's view of time, which is the same for all its lives.
  SimClock& clock_of(Party party) { return *clocks_[party]; }
  /// Delivers a message that nobody has sent.
  void inject(Party from, Party to, const Bytes& message) { network.deliver(from, to, message); }

  /// The names of the files on the parties' disks.
  std::filesystem::path database() const { return "vault.db"; }
  std::filesystem::path slots() const { return "slots"; }

  // ---- blocking operations

  Result<Bytes> read(BlockId block);
  Status write(BlockId block, Bytes content);
  Status commit();

  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    spawn(context.get_executor(), [](Task<T> inner, std::optional<T>& out) -> Task<void> {
      out.emplace(co_await std::move(inner));
    }(std::move(task), result));
    run_until([&] { return result.has_value(); });
    return std::move(*result);
  }
  /// Throws when nothing is left to do, or after two hours (of the true time).
  void run_until(const std::function<bool()>& done);
  /// Advances by one event.
  void step();
  /// Finishes everything under way that needs no time to pass.
  void settle();

  template <class T>
  static void require(const T& result) {
    if (!result) throw std::runtime_error(result.error().message);
  }
  const VolumeParams& params() const { return params_; }
  const VolumeId& volume() const { return volume_; }
  const Seed& sealing_key() const { return key_; }
  Party servers() const { return params_.scheme.servers; }
  std::size_t ghosts() const { return ghosts_.size(); }

 private:
  /// A life of a party lasts from its start (or the end of its previous life) to its end.
  struct Life {
    ~Life();
    Party party = kClient;
    std::unique_ptr<SimDisk> disk;
    std::unique_ptr<Transport> port;
    std::shared_ptr<void> companion;
    std::unique_ptr<ShareServer> server;
    std::unique_ptr<Engine> engine;
    std::unique_ptr<Rebuild> rebuild;
    std::unique_ptr<ClientState> state;  // state for a re-enrolment
    std::unique_ptr<Reenrolment> reenrolment;
    bool dead = false, opening = false, stopped = false;
  };
  /// The key of the client's database and its nonces, both from the seed.
  std::shared_ptr<const PageKey> page_key_;
  Life& client() { return *parties_[kClient]; }
  Random& random_of_client() { return client_random ? *client_random : random_; }
  std::optional<ClientState> open_state(Life& life, const std::function<void(Status)>& done);
  std::shared_ptr<Life> new_life(std::unique_ptr<SimDisk> disk, Party party);
  void end_life(Party party);
  void stop_unseen(std::shared_ptr<Life> life);
  void bury_ghosts();

  VolumeParams params_;
  Prg random_;

 public:
  Trace trace;
  asio::io_context context{1};
  FastClock clock;  // the true time
  Network network;
  ShuffledPool pool;

 private:
  std::vector<std::unique_ptr<SimClock>> clocks_;
  VolumeId volume_{};
  Seed key_{};
  std::vector<std::shared_ptr<Life>> parties_;
  std::vector<std::shared_ptr<Life>> ghosts_;
};

/// Returns a block whose bytes show its number and its generation.
Bytes pattern(BlockId block, std::uint64_t generation, std::size_t size);

/// ASSERT_OK(result): asserts that there is no error, or prints it.
#define ASSERT_OK(expr)                                    \
  do {                                                     \
    const auto& s3o_result = (expr);                       \
    ASSERT_TRUE(s3o_result) << s3o_result.error().message; \
  } while (false)

}  // namespace s3oram::test
