// One server's part in share marks (docs/protocol.md, "Share marks"): it computes the marks of what
// an eviction has written, and of what it holds after a repair.
#pragma once

#include "serverd/oram/server_state.h"

namespace s3oram {

class ServerMarks {
 public:
  explicit ServerMarks(ServerState& state) : state_(state) {}

  Task<Result<Bytes>> mark_prepared(MarkPreparedRequest request, Payload&);
  Task<Result<Bytes>> mark_buckets(MarkBucketsRequest request, Payload&);
  Task<Result<Bytes>> disown(DisownRequest request, Payload&);

 private:
  Result<BucketVersionRef> version_of(BucketIndex bucket, std::uint64_t tree_version) const;
  Result<std::optional<Mark>> mark_on_disk(const MarkBucketsRequest::Bucket& asked,
                                           const BucketVersionRef& ref) const;
  Mark mark_of(const ShareMark& under, const BucketVersionRef& ref,
               const BucketVersion* content) const;

  ServerState& state_;
};

}  // namespace s3oram
