// The parts received so far of a tree version that a server will take up (ReenrolRequest).
#pragma once

#include <vector>

#include "oramcore/protocol/repair_messages.h"

namespace s3oram {

/// Used by one thread at a time.
class TakenUp {
 public:
  /// Adds a part. A part of another session or tree version starts over, one that was given already
  /// changes nothing, and an impossible one discards the earlier parts. Returns whether `part` was
  /// the last one. Errors: bad_request (such a tree has no such buckets, or they were given
  /// already), need_open (earlier parts came before a restart).
  Result<bool> gather(const ReenrolRequest& part);
  const std::vector<BucketShape>& buckets() const { return buckets_; }

 private:
  Status add(const ReenrolRequest& part);

  Session session_;
  std::uint64_t tree_version_ = 0;
  std::vector<BucketShape> buckets_;
};

}  // namespace s3oram
