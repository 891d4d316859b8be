// What a ring's server writes into its record (--record). All of it is what the
// server knows anyway: which points and rows a request is about stands in the
// request.
#pragma once

#include <vector>

#include "oramcore/schemes/ring/protocol/messages.h"
#include "serverd/store/access_log.h"

namespace s3oram::ring {

/// Without a log the methods do nothing.
class RingRecord {
 public:
  using Cause = AccessLog::Cause;
  using Operation = AccessLog::Operation;

  explicit RingRecord(AccessLog* log) : log_(log) {}

  void retrieval(const RetrieveRequest& request);
  /// A rewrite makes new versions of these buckets, of `bucket_size` rows.
  void rewrite(const std::vector<BucketIndex>& buckets, unsigned bucket_size);
  void rows(Cause cause, Operation operation, const RecordedSlots& rows);
  /// Slots of the log, which counts as the bucket at the root.
  void log(Cause cause, Operation operation, std::uint32_t first, std::uint32_t count);

 private:
  AccessLog* const log_;
};

}  // namespace s3oram::ring
