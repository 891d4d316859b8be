// What a record shows, and what statistics find in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/record_file.h"

namespace s3oram {

/// An access as a server without s3oram would see it: it knows the block and what is done to it.
struct AskedBlock {
  double place = 0;  // of the block among all, from 0 to 1
  bool writes = false;
};

/// A stretch of a record: one workload of the demonstration, or the whole of somebody's record.
struct RecordStretch {
  std::string title, about;
  std::vector<AskedBlock> asked;  // of the demonstration
  std::vector<RecordedRequest> seen;
  double begin = 0, seconds = 0;  // s since 1970; how long it takes
};

struct StretchFindings {
  std::size_t accesses = 0;
  std::size_t places = 0, of = 0;  // paths that were read, and how many the tree has
  double repeats = 0;              // accesses to the path of the access before: 0 to 1
  double uniform_p = 1;            // of paths chosen uniformly
  std::vector<std::uint64_t> bins;
  std::size_t asked_places = 0;  // the same of the blocks that were asked for
  double asked_repeats = 0;
  double asked_writes = 0;  // part of the accesses
  std::vector<std::uint64_t> asked_bins;
};

/// The paths that accesses read, from 0 to 1, since the tree has its last height; `level` becomes
/// that height. A ring's server is asked for no bucket that was never written, so there it becomes
/// the deepest level that the last accesses all reached, and the paths end there.
std::vector<double> accessed_places(const std::vector<RecordedRequest>& seen, unsigned& level);

StretchFindings find_in(const RecordStretch& stretch);

/// "0.41", or "below 0.000001".
std::string probability_text(double p);

/// A table for a person: its first row is the heading.
using FindingsTable = std::vector<std::vector<std::string>>;

/// What a plain server and what this one finds, of stretches of equally many accesses.
FindingsTable compare(const std::vector<RecordStretch>& stretches);
/// What one record holds.
FindingsTable describe(const RecordStretch& stretch);

}  // namespace s3oram
