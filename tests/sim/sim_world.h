// The client and the servers of a volume in one process and one thread, over a network in memory,
// on disks in memory, each with a clock of its own. Everything that happens follows from the seed.
// Cluster (cluster.h) has the volumes of s3oram and mirror, RingWorld (schemes/ring/sim) those of
// ring.
//
// A party dies in one of two ways: kill() ends its process (what it wrote is there), cut() its
// power (what it did not sync may be lost, SimDisk). In both cases the old life goes on as a ghost
// that nobody hears, until its coroutines have ended; its callbacks are still called.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "oramcore/client/volume_engine.h"
#include "serverd/oram/share_server.h"
#include "tests/harness/shuffled_pool.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_disk.h"

namespace s3oram::test {

class SimWorld {
 public:
  virtual ~SimWorld() = default;
  /// Kills all parties and waits until the ghosts have ended, so that no more callbacks come. The
  /// destructor does the same. Whatever callbacks refer to must live until then.
  void end();

  // ---- parties; a party is kClient or a server from 1

  /// Starts a server that does not run. The server does not run if this returns an error, which
  /// says why (its disk failed, or its power was cut meanwhile).
  Status try_start_server(Party server);
  void start_server(Party server) { require(try_start_server(server)); }
  /// Returns an error of the server's disk, which is not an error of the world; the server has
  /// ended in any case.
  Status try_stop_server(Party server);
  void stop_server(Party server) { require(try_stop_server(server)); }

  Status open_client();
  /// Does the same without waiting. After an error only kill() may be called. `done` is not called
  /// if the client's power is cut before.
  virtual void begin_open_client(std::function<void(Status)> done) = 0;
  Status close_client();

  /// The party, which does not run, loses its disk with everything on it.
  void lose(Party party) { replace_disk(party, {}); }
  void lose_client() { lose(kClient); }
  /// Rebuilds the database of a client that has lost its disk from what the servers hold. Like
  /// begin_open_client(). An earlier attempt may have been cut short.
  virtual void begin_restore_client(std::function<void(Status)> done) = 0;
  /// Servers that have lost their disks, and run, take their places again. Like
  /// begin_open_client().
  virtual void begin_reenrol(std::set<Party> lost, std::function<void(Status)> done) = 0;

  /// Ends the party's process at this instant, in the middle of anything.
  void kill(Party party);
  /// Cuts the party's power at this instant. Cuts armed at its disk() do the same.
  void cut(Party party);
  /// Called when a party has died, in either way. Callbacks that come from it later belong to a
  /// ghost.
  std::function<void(Party)> on_death;
  /// Called for each durable step that a living party announces (Disk::step). Cut the party's power
  /// here, right before the step (not done) or right after it (done).
  std::function<void(Party, std::string_view name, bool done)> on_step;

  /// Called with each new engine before it is opened, to set a participant. The returned object is
  /// destroyed after the engine, and after the engine's ghost if it becomes one.
  std::function<std::shared_ptr<void>(VolumeEngine&)> companion;

  bool runs(Party party) const;
  VolumeEngine& volume_engine() { return *parties_[kClient]->engine; }
  ShareServer& running_server(Party server) { return *parties_[server]->server; }

  /// Returns the disk of the party's current life (or of the next one, if it does not run).
  SimDisk& disk(Party party) { return *parties_[party]->disk; }
  /// Puts another disk into a party that does not run.
  void replace_disk(Party party, const DiskImage& image);
  /// Returns the party's view of time, which is the same for all its lives.
  SimClock& clock_of(Party party) { return *clocks_[party]; }

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
  /// Lets time pass at all parties.
  void pass(Duration time);
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

 protected:
  /// Work of a client that is not open.
  class Job {
   public:
    virtual ~Job() = default;
    /// Makes it end soon.
    virtual void stop() = 0;
  };
  /// A life of a party lasts from its start (or the end of its previous life) to its end.
  struct Life {
    ~Life();
    Party party = kClient;
    std::unique_ptr<SimDisk> disk;
    std::unique_ptr<Transport> port;
    std::shared_ptr<void> companion;
    std::unique_ptr<ShareServer> server;
    std::unique_ptr<VolumeEngine> engine;
    std::unique_ptr<Job> job;
    bool dead = false, opening = false, stopped = false;
  };

  /// `name` distinguishes the random numbers of the kinds of worlds.
  SimWorld(const VolumeParams& params, std::uint64_t seed, std::string_view name);
  /// Starts the servers and makes the volume there. A constructor calls this.
  void make_volume();
  /// Ends everything. A destructor calls this.
  void end_for_good();

  virtual Result<std::unique_ptr<ShareServer>> make_server(
      Party server, const ServerEnvironment& environment) = 0;
  ClientEnvironment client_environment(Life& life, Random& random);
  /// Opens the engine of a life; `done` is as in begin_open_client().
  void open_engine(std::shared_ptr<Life> life, std::function<void(Status)> done);
  std::shared_ptr<Life> client() { return parties_[kClient]; }
  Random& random() { return random_; }

 private:
  std::shared_ptr<Life> new_life(std::unique_ptr<SimDisk> disk, Party party);
  void end_life(Party party);
  void stop_unseen(std::shared_ptr<Life> life);
  void bury_ghosts();

  const VolumeParams params_;
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
  // The key of the client's database and its nonces, both from the seed.
  std::shared_ptr<const PageKey> page_key_;
  std::vector<std::shared_ptr<Life>> parties_;
  std::vector<std::shared_ptr<Life>> ghosts_;
};

/// Returns a block whose bytes show its number and its generation.
Bytes pattern(BlockId block, std::uint64_t generation, std::size_t size);

}  // namespace s3oram::test
