// A ring's client and server in one process and one thread, over a network in memory, on disks in
// memory, each with a clock of its own. Everything follows from the seed. tests/sim/cluster.h is
// the same for the schemes with several servers.
//
// A party dies in one of two ways: kill() ends its process (what it wrote is there), cut() its
// power (what it did not sync may be lost). In both cases the old life goes on as a ghost that
// nobody hears, until its coroutines have ended; its callbacks are still called.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "oramcore/schemes/ring/client/ring_rebuild.h"
#include "serverd/ring/ring_server.h"
#include "tests/harness/shuffled_pool.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_disk.h"

namespace s3oram::ring::test {

using s3oram::test::DiskImage;
using s3oram::test::FastClock;
using s3oram::test::Network;
using s3oram::test::ShuffledPool;
using s3oram::test::SimClock;
using s3oram::test::SimDisk;

inline constexpr Party kServer = 1;

class RingWorld {
 public:
  /// Makes the volume. The server runs afterwards, the client does not.
  RingWorld(const VolumeParams& params, std::uint64_t seed);
  ~RingWorld();

  Status try_start_server();
  void start_server() { require(try_start_server()); }
  Status stop_server();
  Status open_client();
  /// Does the same without waiting. `done` is not called if the client's power is cut before.
  void begin_open_client(std::function<void(Status)> done);
  Status close_client();
  /// The client, which does not run, loses its disk; then vault.db and top.cache are rebuilt.
  void lose_client();
  Result<RingRebuild::Rebuilt> rebuild_client(
      RingRebuild::Asked asked = RingRebuild::Asked::as_server_says);

  void kill(Party party);
  void cut(Party party) { disk(party).cut(); }
  bool runs(Party party) const;
  /// Called when a party has died, in either way.
  std::function<void(Party)> on_death;
  /// Sets whether top.cache can be written at a place.
  std::function<bool(std::uint64_t offset)> cache_takes;
  /// Called for each durable step that a living party announces (Disk::step).
  std::function<void(Party, std::string_view name, bool done)> on_step;

  ShareServer& server() { return *parties_[kServer]->server; }
  RingEngine& engine() { return *parties_[kClient]->engine; }
  SimDisk& disk(Party party) { return *parties_[party]->disk; }

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
  /// Lets time pass at all parties.
  void pass(Duration time);
  /// Throws when nothing is left to do, or after two hours of true time.
  void run_until(const std::function<bool()>& done);
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

 private:
  struct Life {
    ~Life();
    std::unique_ptr<SimDisk> disk;
    std::unique_ptr<Transport> port;
    std::unique_ptr<ShareServer> server;
    std::unique_ptr<RingEngine> engine;
    bool dead = false, opening = false, stopped = false;
  };
  std::shared_ptr<Life> new_life(std::unique_ptr<SimDisk> disk, Party party);
  void end_life(Party party);
  void bury_ghosts();

  const VolumeParams params_;
  Prg random_;
  VolumeId volume_{};
  Seed key_{};
  std::vector<std::unique_ptr<SimClock>> clocks_;

 public:
  boost::asio::io_context context;
  FastClock clock;
  Network network;
  ShuffledPool pool;

 private:
  std::vector<std::shared_ptr<Life>> parties_;
  std::vector<std::shared_ptr<Life>> ghosts_;
};

/// Small volumes in which no eviction overflows.
VolumeParams small_ring(std::uint16_t bucket_size, std::uint16_t evict_every,
                        std::uint8_t top_levels, std::uint8_t first_height = 0);

/// What a block must hold.
Bytes pattern(BlockId block, std::uint64_t generation, std::size_t size);

}  // namespace s3oram::ring::test
