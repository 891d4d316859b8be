// The workloads of the demonstration: what programs could do with a directory, as accesses to
// blocks. They are as different as possible, but have the same number of accesses.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "oramcore/base/random.h"

namespace s3oram {

struct PlannedAccess {
  std::chrono::microseconds when{};  // the earliest time, from the beginning of the workload
  std::uint64_t block = 0;
  bool writes = false;
};

struct Workload {
  std::string title, about;
  std::vector<PlannedAccess> accesses;
};

/// Returns three workloads of `accesses` accesses each to blocks below `blocks`, each planned for
/// `time`.
std::vector<Workload> demo_workloads(std::size_t accesses, std::uint64_t blocks,
                                     std::chrono::microseconds time, Random& random);

}  // namespace s3oram
