// Examines a record with counts and statistical tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/record_file.h"

namespace s3oram {

/// An access as a plain server would see it, which knows the block and the operation.
struct AskedBlock {
  double place = 0;  // position of the block among all blocks, from 0 to 1
  bool writes = false;
};

/// A stretch of a record: one workload of the demonstration, or a whole record.
struct RecordStretch {
  std::string title, about;
  std::vector<AskedBlock> asked;  // only in the demonstration
  std::vector<RecordedRequest> seen;
  double begin = 0, seconds = 0;  // when it begins (s since 1970), and its length in s
};

struct StretchFindings {
  std::size_t accesses = 0;
  std::size_t places = 0, of = 0;  // paths that were read, and paths that the tree has
  double repeats = 0;              // part of the accesses that repeat the previous path
  double uniform_p = 1;            // the probability of such paths if they are chosen uniformly
  std::vector<std::uint64_t> bins;
  std::size_t asked_places = 0;  // the same for the blocks that were requested
  double asked_repeats = 0;
  double asked_writes = 0;  // part of the accesses that write
  std::vector<std::uint64_t> asked_bins;
};

/// Returns the paths, as positions from 0 to 1, that accesses have read since the tree got its last
/// height. Sets `level` to that height. A ring's client requests no bucket that was never written,
/// so for a ring `level` is the deepest level that the last accesses all reached, and the paths end
/// there.
std::vector<double> accessed_places(const std::vector<RecordedRequest>& seen, unsigned& level);

StretchFindings find_in(const RecordStretch& stretch);

/// Returns "0.41", or "below 0.000001".
std::string probability_text(double p);

/// A table for people. Its first row is the heading.
using FindingsTable = std::vector<std::vector<std::string>>;

/// Compares the findings of a plain server with those of this one. All stretches must have the same
/// number of accesses.
FindingsTable compare(const std::vector<RecordStretch>& stretches);
/// Describes one record.
FindingsTable describe(const RecordStretch& stretch);

}  // namespace s3oram
