// A client with two volumes, each with servers of its own, in one thread and from one seed. Blocks
// move from one to the other while they are used. Only the client dies; each scheme has its own
// tests of a server's death.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "oramcore/client/migrating_device.h"
#include "oramcore/client/volume_kind.h"
#include "serverd/any_server.h"
#include "tests/harness/shuffled_pool.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_disk.h"

namespace s3oram::test {

class MigrationWorld {
 public:
  enum Side : std::size_t { kFrom, kTo };

  /// Makes both volumes. Their servers run from then on, and the client does not.
  MigrationWorld(const VolumeParams& from, const VolumeParams& to, std::uint64_t seed);
  ~MigrationWorld();

  /// Opens the volumes. The device serves `to`, with `from` as its source if it is given. If the
  /// client lost its power, the error says so.
  Status open(Side to, std::optional<Side> from = {}, std::uint64_t rate = 0);
  Status close();
  /// pause() pauses the device and closes the volumes under it; go_on() opens them again.
  Status pause();
  Status go_on(Side to, std::optional<Side> from, std::uint64_t rate);
  /// hold() only pauses the device; commit_held() commits what it has acknowledged.
  Status hold();
  Status commit_held();
  /// Closes the engine of a side that the device still uses, so that what it asks of it fails.
  Status close_under_device(Side side);
  /// Sets whether blocks are copied as soon as there is a source.
  bool copies_at_once = true;
  /// The client, which does not run, loses the content of its disk.
  void lose_disk();
  /// Rebuilds the volume's vault.db from what its servers hold.
  Status rebuild(Side side);
  /// The rows of a participant in the volume's vault.db: a number for each block.
  std::map<BlockId, std::uint64_t> rows(Side side);
  Status set_rows(Side side, const std::map<BlockId, std::uint64_t>& rows);

  /// Ends the client's process at this instant. A power cut of its disk() ends it too.
  void kill() {
    if (!life_->dead) end_life();
  }
  bool runs() const { return life_->device != nullptr; }
  MigratingDevice& device() { return *life_->device; }
  VolumeEngine& engine(Side side) { return *life_->engines[side]; }
  SimDisk& disk() { return *life_->disk; }

  /// Called for each step of the client's disk (Disk::step).
  std::function<void(std::string_view name, bool done)> on_step;
  /// Called for a request from the client to a server of this side; returning false loses it.
  std::function<bool(Side side, const Bytes& message)> filter;

  /// Errors: those of the device; the client lost its power meanwhile.
  Result<Bytes> read(BlockId block);
  Status write(BlockId block, std::uint64_t generation);
  Status commit();
  void discard(BlockId block);
  Bytes pattern(BlockId block, std::uint64_t generation) const;

  /// Throws when nothing is left to do, or after a day of simulated time.
  void run_until(const std::function<bool()>& done);
  void pass(Duration time);
  Duration now() const { return clock_.now(); }

 private:
  class Rows;
  struct Server {
    Server(std::uint64_t seed, std::unique_ptr<Transport> attached)
        : disk(DiskImage{}, seed), port(std::move(attached)) {}
    SimDisk disk;
    std::unique_ptr<Transport> port;
    std::unique_ptr<ShareServer> server;
  };
  struct Volume {
    ClientVolume volume;
    std::unique_ptr<Network> network;
    std::vector<std::unique_ptr<Server>> servers;
  };
  /// Lasts from one start of the client to its end.
  struct Life {
    ~Life();
    std::unique_ptr<SimDisk> disk;
    std::unique_ptr<Transport> ports[2];
    std::unique_ptr<Rows> rows;
    std::unique_ptr<MigratingDevice> device;
    std::unique_ptr<VolumeEngine> engines[2];
    bool dead = false, opening = false, stopped = false;
  };
  void make(Side side, const VolumeParams& params);
  std::shared_ptr<Life> new_life(std::unique_ptr<SimDisk> disk);
  void end_life();
  Status make_engine(Side side);
  static Task<Status> open_engines(std::shared_ptr<Life> life, Side to, std::optional<Side> from,
                                   std::uint64_t rate);
  static Task<Status> close_engines(std::shared_ptr<Life> life, bool with_commit);
  template <class T>
  T run(Task<T> task);
  void step();

  Prg random_;
  asio::io_context context_{1};
  FastClock clock_{context_};
  ShuffledPool pool_;
  Volume volumes_[2];
  std::shared_ptr<Life> life_;
  std::vector<std::shared_ptr<Life>> ghosts_;
};

}  // namespace s3oram::test
