// The parts received so far of a tree version that a server is to take up (ReenrolRequest).
#pragma once

#include <vector>

#include "oramcore/protocol/repair_messages.h"

namespace s3oram {

/// One thread at a time.
class TakenUp {
 public:
  /// Adds a part. One of another session or tree version starts over; one that was told already
  /// changes nothing; an impossible one discards those before it. Returns whether it was the last.
  /// Errors: bad_request (such a tree has no such buckets, or they were told already), need_open
  /// (the parts before it came before a restart).
  Result<bool> gather(const ReenrolRequest& part);
  const std::vector<BucketShape>& buckets() const { return buckets_; }

 private:
  Status add(const ReenrolRequest& part);

  Session session_;
  std::uint64_t tree_version_ = 0;
  std::vector<BucketShape> buckets_;
};

}  // namespace s3oram
