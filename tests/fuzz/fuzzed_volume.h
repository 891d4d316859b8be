// Small volumes in use, for fuzz targets that send messages to whole servers and clients.
#pragma once

#include <map>
#include <set>

#include "tests/fuzz/input.h"
#include "tests/harness/volumes.h"
#include "tests/sim/cluster.h"

namespace s3oram::fuzz {

/// A cluster, and the contents that its blocks may hold. Aborts if a block holds anything else.
class FuzzedVolume {
 public:
  static constexpr BlockId kBlocks = 5;

  /// `kind` selects the scheme and the evictor.
  explicit FuzzedVolume(std::uint8_t kind);

  test::Cluster& cluster() { return cluster_; }
  /// Opens the client and writes every block twice, so that evictions have moved some.
  void fill();
  /// Writes a block and commits. This may fail.
  void write(BlockId block);
  /// Reads a block. This may fail, but never returns wrong content.
  void read(BlockId block);
  /// Opens the volume again. This may fail.
  bool reopen();
  /// Opens the volume again and reads every block. Now nothing may fail.
  void expect_all_there();

 private:
  test::Cluster cluster_;
  std::map<BlockId, std::set<std::uint64_t>> generations_;  // those that a block may hold
  std::uint64_t next_generation_ = 1;
};

}  // namespace s3oram::fuzz
