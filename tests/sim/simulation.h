// One run of the simulator: a volume, a workload and troubles, all from one seed.
#pragma once

#include <cstdint>
#include <string>

#include "oramcore/protocol/params.h"
#include "tests/sim/coverage.h"

namespace s3oram::test {

struct RunReport {
  std::string failure;  // empty if all promises were kept
  std::string shape;
  std::uint64_t trace = 0;  // a hash over everything that happened
  std::uint64_t steps = 0;  // steps of the cluster
  std::uint64_t operations = 0, troubles = 0, cuts = 0, evictions = 0, rebuilds = 0, repairs = 0;
  unsigned height = 0;  // height of the tree at the end
  Coverage coverage;
};

/// The party that now and then loses its disk with everything on it: the client, when it dies and
/// at the end; or one server at a time, when the client dies.
enum class Loser { nobody, client, server };

/// Deterministic: the same seed gives the same report. The volume uses the given scheme.
RunReport simulate(std::uint64_t seed, Loser loser = Loser::nobody,
                   SchemeKind kind = SchemeKind::s3oram);

}  // namespace s3oram::test
