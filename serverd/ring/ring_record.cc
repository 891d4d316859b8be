// Makes the entries of a ring's record.
#include "serverd/ring/ring_record.h"

#include "oramcore/oram/geometry.h"

namespace s3oram::ring {

void RingRecord::retrieval(const RetrieveRequest& request) {
  if (!log_) return;
  const std::uint64_t number = log_->begin();
  for (const Ask& ask : request.asks)
    log_->note(number, Cause::access, Operation::read, {ask.bucket, ask.point, 1});
}

void RingRecord::rewrite(const std::vector<BucketIndex>& buckets, unsigned bucket_size) {
  if (!log_) return;
  const std::uint64_t number = log_->begin();
  for (const BucketIndex bucket : buckets)
    log_->note(number, Cause::eviction, Operation::write, {bucket, 0, bucket_size});
}

void RingRecord::rows(Cause cause, Operation operation, const RecordedSlots& rows) {
  if (log_) log_->note(log_->begin(), cause, operation, rows);
}

void RingRecord::log(Cause cause, Operation operation, std::uint32_t first, std::uint32_t count) {
  rows(cause, operation, {kRoot, first, count});
}

}  // namespace s3oram::ring
