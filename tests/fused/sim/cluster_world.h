// A world of the real client and real servers, on simulated disks and a simulated network
// (tests/sim). The client or everyone loses power, even between any two operations of the client's
// disk; or the client's process is killed.
#pragma once

#include <memory>
#include <vector>

#include "tests/fused/sim/world.h"
#include "tests/sim/cluster.h"

namespace s3oram::sim {

class ClusterWorld final : public World {
 public:
  ClusterWorld(std::uint64_t seed, std::uint32_t block_size);
  ~ClusterWorld() override;

  void power_off() override;
  void power_on() override;
  BlockDevice& device() override;
  std::string database() const override { return cluster_.database().string(); }
  Disk& disk() override { return cluster_.disk(kClient); }
  std::size_t mapped() override { return cluster_.engine().status().blocks; }
  void check_use() override;
  bool can(Trouble trouble) const override {
    return trouble == Trouble::full || trouble == Trouble::silent;
  }
  void set_trouble(Trouble trouble) override;
  std::uint64_t grain() const override { return 50; }
  Time now() override {
    return Time(std::chrono::duration_cast<Time::duration>(cluster_.clock.now()));
  }

 private:
  class Device;
  struct Message {
    Party from = kClient, to = kClient;
    Bytes content;
  };
  void run_event(Time until) override;

  test::Cluster cluster_;
  std::shared_ptr<Device> device_;
  std::vector<Message> held_;  // while the servers are silent
  Time wakes_{};               // when a timer is set to go off
  bool on_ = false;
};

}  // namespace s3oram::sim
