// A world whose device is a map in memory. It is fast, and as unpleasant as BlockDevice's contract
// allows: writes are acknowledged late and out of order; commits come without being asked for,
// fail, or end before anybody is told.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "oramcore/db/sqlite.h"
#include "tests/fused/sim/world.h"

namespace s3oram::sim {

class MemoryWorld final : public World {
 public:
  /// `folder` is empty, and outlives the world.
  MemoryWorld(std::uint64_t seed, const std::filesystem::path& folder, std::uint32_t block_size);
  ~MemoryWorld() override;

  void power_off() override;
  void power_on() override;
  BlockDevice& device() override;
  std::string database() const override { return database_; }
  std::size_t mapped() override;
  void check_use() override;
  bool can(Trouble) const override { return true; }
  Time now() override { return now_; }

 private:
  class Device;
  void run_event(Time until) override;
  void after(std::uint64_t least_ms, std::uint64_t most_ms, std::function<void()> event);

  const std::string database_;
  const std::uint32_t block_size_;
  Time now_{};
  std::multimap<Time, std::function<void()>> events_;
  std::map<BlockId, Bytes> durable_;
  std::unique_ptr<Device> device_;
};

}  // namespace s3oram::sim
