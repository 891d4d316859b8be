// Makes a world and a driver for a seed, and runs them.
#include "tests/fused/sim/runs.h"

#include "tests/fused/fixture.h"
#include "tests/fused/sim/cluster_world.h"
#include "tests/fused/sim/driver.h"
#include "tests/fused/sim/memory_world.h"

namespace s3oram::sim {
namespace {

std::optional<std::string> run(World& world) {
  Driver driver(world, {});
  try {
    driver.run();
    return {};
  } catch (const Violation& violation) {
    return std::string(violation.what()) + "\n" + driver.story();
  } catch (const std::exception& error) {
    return std::string("the simulation fails: ") + error.what() + "\n" + driver.story();
  }
}

}  // namespace

std::optional<std::string> run_on_memory(std::uint64_t seed) {
  const TemporaryDirectory folder;
  MemoryWorld world(seed, folder.path(), kBlock);
  return run(world);
}

std::optional<std::string> run_on_cluster(std::uint64_t seed, const WorldKind& kind) {
  ClusterWorld world(seed, kind, kBlock);
  return run(world);
}

}  // namespace s3oram::sim
