// Fetches what a rewrite moves: the content of its buckets from the server, and for an eviction the
// blocks of the top that belong below them.
#pragma once

#include <vector>

#include "oramcore/schemes/ring/client/rewrite.h"
#include "oramcore/schemes/ring/client/top_blocks.h"

namespace s3oram::ring {

/// One executor; not thread-safe.
class BucketFetcher {
 public:
  BucketFetcher(OpenRing& ring, TopBlocks& top) : ring_(ring), top_(top) {}

  /// Leaves out blocks that are accessed meanwhile. Errors: corrupt (the rows are not what was
  /// stored; the server may recover from that, so nothing is given up), ...
  Task<Result<Moved>> fetch(const Rewrite& rewrite);

 private:
  using Slots = std::vector<Result<OpenedBlock>>;
  Task<Status> fetch_top(const Rewrite& rewrite, Moved& to);
  Task<Status> fetch_bucket(BucketIndex bucket, std::size_t index, Moved& to);
  static bool is(const Slots& slots, std::uint16_t slot, const Candidate& block);
  Task<Result<Slots>> read_bucket(BucketIndex bucket, VersionStamp stamp);
  Result<Slots> opened_slots(BucketIndex bucket, VersionStamp stamp, ByteSpan rows) const;
  Task<Result<Bytes>> fetch_rows(BucketIndex bucket, VersionStamp stamp);

  OpenRing& ring_;
  TopBlocks& top_;
};

}  // namespace s3oram::ring
