// The workloads of the demonstration: what programs could do with a directory, as accesses to
// blocks. They are as different as can be, and of equally many accesses.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "oramcore/base/random.h"

namespace s3oram {

struct PlannedAccess {
  std::chrono::microseconds when{};  // after the workload begins, and not before
  std::uint64_t block = 0;
  bool writes = false;
};

struct Workload {
  std::string title, about;
  std::vector<PlannedAccess> accesses;
};

/// Three workloads of so many accesses to blocks below `blocks`, each planned for `time`.
std::vector<Workload> demo_workloads(std::size_t accesses, std::uint64_t blocks,
                                     std::chrono::microseconds time, Random& random);

}  // namespace s3oram
