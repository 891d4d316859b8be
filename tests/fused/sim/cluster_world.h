// A world of the real client and real servers of any scheme, on simulated disks and a simulated
// network (tests/sim). The client or everyone loses power, even between any two operations of the
// client's disk; or the client's process is killed. Servers may die, too, one at a time: they are
// started again so soon that no program notices. If the others can do without a server, it may be
// away for longer.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tests/fused/sim/runs.h"
#include "tests/fused/sim/world.h"
#include "tests/sim/sim_world.h"

namespace s3oram::sim {

class ClusterWorld final : public World {
 public:
  ClusterWorld(std::uint64_t seed, const WorldKind& kind, std::uint32_t block_size);
  ~ClusterWorld() override;

  void power_off() override;
  void power_on() override;
  BlockDevice& device() override;
  std::string database() const override { return "vault.db"; }
  Disk& disk() override { return cluster_->disk(kClient); }
  std::size_t mapped() override { return cluster_->volume_engine().status().blocks; }
  void check_use() override;
  bool can(Trouble trouble) const override {
    return trouble == Trouble::full || trouble == Trouble::silent;
  }
  void set_trouble(Trouble trouble) override;
  std::uint64_t grain() const override { return 50; }
  Time now() override {
    return Time(std::chrono::duration_cast<Time::duration>(cluster_->clock.now()));
  }

 private:
  class Device;
  struct Message {
    Party from = kClient, to = kClient;
    Bytes content;
  };
  void run_event(Time until) override;
  void trouble_servers();
  void begin_death();
  bool all_in_step();

  const bool servers_die_;
  const std::unique_ptr<test::SimWorld> cluster_;
  std::shared_ptr<Device> device_;
  std::vector<Message> held_;  // while the servers are silent
  Time wakes_{};               // when a timer is set to go off
  bool on_ = false;
  Party victim_ = kClient;    // the server that dies or is dead; kClient if none
  bool may_be_long_ = false;  // the others can do without it
  std::optional<Time> back_;  // when it is started again
  Time calm_until_{};         // no server dies before
};

}  // namespace s3oram::sim
