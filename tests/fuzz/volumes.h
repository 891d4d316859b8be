// Small volumes in use, for fuzz targets that talk to whole servers and clients.
#pragma once

#include <map>
#include <set>

#include "tests/fuzz/input.h"
#include "tests/harness/volumes.h"
#include "tests/sim/cluster.h"

namespace s3oram::fuzz {

/// A cluster and what its blocks may hold. Aborts if one holds anything else.
class FuzzedVolume {
 public:
  static constexpr BlockId kBlocks = 5;

  /// `kind` says which scheme and evictor.
  explicit FuzzedVolume(std::uint8_t kind);

  test::Cluster& cluster() { return cluster_; }
  /// Opens the client and writes every block twice, so that evictions have moved some.
  void fill();
  /// Writes a block and commits; it may fail.
  void write(BlockId block);
  /// Reads a block; it may fail, but never return wrong content.
  void read(BlockId block);
  /// Opens the volume again; it may fail.
  bool reopen();
  /// Opens the volume again and reads every block: now nothing may fail.
  void expect_all_there();

 private:
  test::Cluster cluster_;
  std::map<BlockId, std::set<std::uint64_t>> generations_;  // that a block may hold
  std::uint64_t next_generation_ = 1;
};

}  // namespace s3oram::fuzz
