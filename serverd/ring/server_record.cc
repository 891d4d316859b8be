// What a ring's server writes into its record (--record). All of it is what the server knows
// anyway: which points and rows a request is about stands in the request.
#include "oramcore/oram/geometry.h"
#include "serverd/ring/server.h"

namespace s3oram::ring {

using Cause = AccessLog::Cause;
using Operation = AccessLog::Operation;

void Server::record_retrieval(const RetrieveRequest& request) {
  if (!record_) return;
  const std::uint64_t number = record_->begin();
  for (const Ask& ask : request.asks)
    record_->note(number, Cause::access, Operation::read, {ask.bucket, ask.point, 1});
}

void Server::record_rewrite(const std::vector<BucketIndex>& buckets) {
  if (!record_) return;
  const std::uint64_t number = record_->begin();
  for (const BucketIndex bucket : buckets)
    record_->note(number, Cause::eviction, Operation::write, {bucket, 0, params_->bucket_size});
}

void Server::record(Cause cause, Operation operation, const RecordedSlots& slots) {
  if (record_) record_->note(record_->begin(), cause, operation, slots);
}

void Server::record_log(Cause cause, Operation operation, std::uint32_t first,
                        std::uint32_t count) {
  record(cause, operation, {kRoot, first, count});
}

}  // namespace s3oram::ring
