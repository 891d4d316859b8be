// Runs one attempt at a rewrite, up to its decision: seals the blocks at new secret points, stores
// the new bucket versions beside the old ones, and makes the server prepare them.
#pragma once

#include <optional>

#include "oramcore/schemes/ring/client/open_ring.h"
#include "oramcore/schemes/ring/client/rewrite.h"

namespace s3oram::ring {

/// One executor; not thread-safe.
class RingPreparer {
 public:
  RingPreparer(OpenRing& ring, const Seed& sealing_key) : ring_(ring), sealing_key_(sealing_key) {}

  /// Call it when the volume is opened, before anything else.
  void begin_session();
  /// Returns the id of a new attempt. The first half of its number is the stamp of the bucket
  /// versions that it makes, from which their points and masks are drawn, so that half must not
  /// repeat. It consists of the rewrite's number and a counter that starts at a random value each
  /// time the volume is opened.
  EvictionId new_attempt(const Rewrite& rewrite);
  /// Stores the new versions. Takes their blocks from `moved`.
  Task<Status> store(const Rewrite& rewrite, const EvictionId& id, const EvictionPlan& plan,
                     Moved& moved);
  Task<Status> prepare(const Rewrite& rewrite, const EvictionId& id, unsigned next_height);
  Task<Status> discard(const EvictionId& id);
  /// Call it when the prepared attempt is durably decided.
  void decided() { attempt_.reset(); }
  /// Returns the attempt that was sent to the server and is not yet durably decided.
  const std::optional<EvictionId>& attempt() const { return attempt_; }

 private:
  Task<Status> store_bucket(BucketIndex bucket, const EvictionId& id, Bytes rows);

  OpenRing& ring_;
  const Seed sealing_key_;
  std::optional<EvictionId> attempt_;
  std::uint32_t next_attempt_ = 0;  // used by all rewrites
};

}  // namespace s3oram::ring
