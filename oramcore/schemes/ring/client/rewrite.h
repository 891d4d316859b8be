// One rewrite of buckets: an eviction, or an early reshuffle of one bucket.
#pragma once

#include <map>
#include <vector>

#include "oramcore/client/client_scheme.h"
#include "oramcore/schemes/ring/client/eviction_plan.h"

namespace s3oram::ring {

struct Rewrite {
  std::uint64_t number = 0;
  bool is_eviction = false;
  Leaf leaf = 0;                 // names the path
  unsigned first = 0, last = 0;  // its levels; only one for a reshuffle
};

/// The content of the buckets of a rewrite, and the blocks of the top that go into them.
struct Moved {
  EvictionPath path;
  std::map<BlockId, OpenedBlock> blocks;
  std::vector<Candidate> lost;
};

}  // namespace s3oram::ring
