// The three workloads: one file again and again, at a steady pace; everything once, without a
// pause; and a database, in bursts.
#include "cli/demo_workload.h"

#include <cmath>

namespace s3oram {
namespace {

using std::chrono::microseconds;

Workload one_file(std::size_t accesses, std::uint64_t blocks, microseconds time) {
  Workload made{"One file, again and again", "read, at a steady pace", {}};
  for (std::size_t i = 0; i < accesses; ++i)
    made.accesses.push_back(
        {time * static_cast<std::int64_t>(i) / static_cast<std::int64_t>(accesses), blocks / 3,
         false});
  return made;
}

Workload whole_backup(std::size_t accesses, std::uint64_t blocks) {
  Workload made{"A backup of everything", "written in order, as fast as it goes", {}};
  for (std::size_t i = 0; i < accesses; ++i)
    made.accesses.push_back({microseconds(0), i % blocks, true});
  return made;
}

/// Uses few blocks often and most of them seldom: block number blocks * u^4.
Workload database(std::size_t accesses, std::uint64_t blocks, microseconds time, Random& random) {
  constexpr std::size_t kBursts = 5;
  constexpr double kSteep = 4, kWritten = 0.3, kBusy = 0.4;  // kBusy: part of a burst's time
  const auto anywhere = [&random] { return static_cast<double>(random.u64() >> 11) * 0x1p-53; };
  Workload made{"A database at work", "some blocks often, most seldom; in bursts", {}};
  for (std::size_t i = 0; i < accesses; ++i) {
    const double at = static_cast<double>(i) / static_cast<double>(accesses) * kBursts;
    const double burst = std::floor(at);
    const double when = (burst + (at - burst) * kBusy) / kBursts;
    const double block = std::pow(anywhere(), kSteep) * static_cast<double>(blocks);
    made.accesses.push_back(
        {microseconds(static_cast<std::int64_t>(when * static_cast<double>(time.count()))),
         static_cast<std::uint64_t>(block), anywhere() < kWritten});
  }
  return made;
}

}  // namespace

std::vector<Workload> demo_workloads(std::size_t accesses, std::uint64_t blocks, microseconds time,
                                     Random& random) {
  return {one_file(accesses, blocks, time), whole_backup(accesses, blocks),
          database(accesses, blocks, time, random)};
}

}  // namespace s3oram
