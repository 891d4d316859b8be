// The measurements of `s3oramfs bench`: how fast a directory is at common operations.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_place.h"

namespace s3oram {

struct BenchOptions {
  std::uint64_t size = 64 << 20;  // bytes of the file that is written and read; 1 MiB at least
  double seconds = 5;             // limit for each measurement that would not end by itself
};

/// One figure.
struct Measurement {
  std::string name;   // stable name for programs
  std::string title;  // name for people
  std::string unit;   // "MB/s" (10^6), "1/s" or "ms"
  double value = 0;
  bool more_is_better = true;
};

/// Reports the current step, and the fraction of all steps that is done, from 0 to 1.
using BenchProgress = std::function<void(double done, const std::string& doing)>;

/// Makes all measurements, in the same order for every place:
///   in sequence    `size` bytes written, fsync included, and read again, cold, in pieces of 1 MiB;
///   at random      cold reads of 4 KiB and 64 KiB, one at a time, each in another 64 KiB, with
///                  their median and 99th percentile; writes, with an fsync after every 64;
///   durable write  4 KiB and an fdatasync, one at a time: median and 99th percentile;
///   files          empty ones created, looked up (stat), listed, renamed and deleted, one by one.
/// Errors: failed, corrupt (what is read is not what was written).
Result<std::vector<Measurement>> measure_place(const BenchPlace& place, const BenchOptions& options,
                                               const BenchProgress& progress);

/// Returns the value below which `part` of the values lie (nearest rank); 0 if there are no values.
double percentile(std::vector<double> values, double part);

}  // namespace s3oram
