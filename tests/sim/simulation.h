// One run of the simulator: a volume, a workload and troubles, all from one seed.
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/coverage.h"

namespace s3oram::test {

struct RunReport {
  std::string failure;  // empty: all promises were kept
  std::string shape;
  std::uint64_t trace = 0;  // a hash over everything that happened
  std::uint64_t steps = 0;  // of the cluster
  std::uint64_t operations = 0, troubles = 0, cuts = 0, evictions = 0, rebuilds = 0;
  unsigned height = 0;  // of the tree, at the end
  Coverage coverage;
};

/// What a client that dies leaves behind: its disk, or, now and then and at the end, nothing.
enum class Client { keeps_its_disk, loses_its_disk };

/// Deterministic: the same seed gives the same report.
RunReport simulate(std::uint64_t seed, Client client = Client::keeps_its_disk);

}  // namespace s3oram::test
