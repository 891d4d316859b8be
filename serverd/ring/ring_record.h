// Writes the record of a ring's server (--record). It contains only what the server already knows,
// because each request says which points and rows it is about.
#pragma once

#include <vector>

#include "oramcore/schemes/ring/protocol/ring_messages.h"
#include "serverd/store/access_log.h"

namespace s3oram::ring {

/// Without a log the methods do nothing.
class RingRecord {
 public:
  using Cause = AccessLog::Cause;
  using Operation = AccessLog::Operation;

  explicit RingRecord(AccessLog* log) : log_(log) {}

  void retrieval(const RetrieveRequest& request);
  /// Records that a rewrite makes new versions of these buckets, of `bucket_size` rows each.
  void rewrite(const std::vector<BucketIndex>& buckets, unsigned bucket_size);
  void rows(Cause cause, Operation operation, const RecordedSlots& rows);
  /// Records slots of the log, which counts as the bucket at the root.
  void log(Cause cause, Operation operation, std::uint32_t first, std::uint32_t count);

 private:
  AccessLog* const log_;
};

}  // namespace s3oram::ring
