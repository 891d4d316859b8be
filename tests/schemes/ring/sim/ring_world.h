// A ring's client and server in a simulation.
#pragma once

#include <functional>
#include <optional>

#include "oramcore/schemes/ring/client/ring_rebuild.h"
#include "serverd/ring/ring_server.h"
#include "tests/sim/sim_world.h"

namespace s3oram::ring::test {

using s3oram::test::DiskImage;
using s3oram::test::pattern;
using s3oram::test::SimDisk;

inline constexpr Party kServer = 1;

class RingWorld final : public s3oram::test::SimWorld {
 public:
  /// Makes the volume. The server runs afterwards, the client does not.
  RingWorld(const VolumeParams& params, std::uint64_t seed);
  ~RingWorld() override { end_for_good(); }

  Status try_start_server() { return SimWorld::try_start_server(kServer); }
  void start_server() { SimWorld::start_server(kServer); }
  Status stop_server() { return try_stop_server(kServer); }

  void begin_open_client(std::function<void(Status)> done) override;
  /// Rebuilds vault.db and top.cache of a client that has lost its disk.
  Result<RingRebuild::Rebuilt> rebuild_client(
      RingRebuild::Asked asked = RingRebuild::Asked::as_server_says);
  void begin_restore_client(std::function<void(Status)> done) override;
  /// There is no other server that has a lost server's data.
  void begin_reenrol(std::set<Party> lost, std::function<void(Status)> done) override;

  /// Sets whether top.cache can be written at a place.
  std::function<bool(std::uint64_t offset)> cache_takes;
  /// Sets whether a sync of top.cache succeeds. If not, most of what was not synced is lost.
  std::function<bool()> cache_syncs;

  ShareServer& server() { return running_server(kServer); }
  RingEngine& engine() { return static_cast<RingEngine&>(volume_engine()); }

 private:
  class Rebuilder;
  Result<std::unique_ptr<ShareServer>> make_server(Party server,
                                                   const ServerEnvironment& environment) override;
  Status begin_rebuild(RingRebuild::Asked asked,
                       std::function<void(Result<RingRebuild::Rebuilt>)> done);
  Result<RingRebuild::Rebuilt> stored(Result<RingRebuild::Rebuilt> rebuilt, SimDisk& disk) const;
};

/// Small volumes in which no eviction overflows.
VolumeParams small_ring(std::uint16_t bucket_size, std::uint16_t evict_every,
                        std::uint8_t top_levels, std::uint8_t first_height = 0);

}  // namespace s3oram::ring::test
