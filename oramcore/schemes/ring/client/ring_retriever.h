// Retrievals: ask the server for one value of each bucket on a path, verify all of them, and open
// the block, from the answer or from the top.
#pragma once

#include <optional>
#include <vector>

#include "oramcore/base/log_limit.h"
#include "oramcore/schemes/ring/client/access_records.h"

namespace s3oram::ring {

/// One executor; not thread-safe.
class RingRetriever {
 public:
  RingRetriever(OpenRing& ring, TopBlocks& top, Rewriter& rewriter, AccessRecords& records)
      : ring_(ring), top_(top), rewriter_(rewriter), records_(records) {}

  /// Returns the block; std::nullopt if it does not exist, or is not where it was looked for. Lets
  /// the query's slot of the cache go. Errors: corrupt, or the volume died.
  Task<Result<std::optional<OpenedBlock>>> retrieve(Turn turn, Query query);

 private:
  enum class Verdict : std::uint8_t { fits, altered, lost };
  /// The read of top.cache that goes with each retrieval.
  struct CacheRead {
    std::optional<Result<OpenedBlock>> found;  // unset if a random slot is read
    bool ended = false;
    Event end;
  };
  Task<std::vector<Verdict>> verdicts(const std::vector<Ask>& asks, const RetrieveAnswer& answer);
  Task<Result<Payload>> values_of(Turn turn, Query& query);
  Task<void> read_cache(BlockId block, std::optional<Place> place, CacheRead& to);

  OpenRing& ring_;
  TopBlocks& top_;
  Rewriter& rewriter_;
  AccessRecords& records_;
  LogLimit told_;
};

}  // namespace s3oram::ring
