// Records what a server reads and writes (--record; serverd/store/access_log.h).
#pragma once

#include <vector>

#include "oramcore/protocol/messages.h"
#include "serverd/oram/slot_address.h"
#include "serverd/oram/store_database.h"
#include "serverd/store/access_log.h"

namespace s3oram {

class ServerRecord {
 public:
  /// If `log` is null, nothing is recorded. `control` must have a volume whenever anything is
  /// recorded. Both must outlive this object.
  ServerRecord(AccessLog* log, const Control& control) : log_(log), control_(control) {}

  bool is_kept() const { return log_ != nullptr; }
  /// Returns slots of a bucket as the client names them.
  RecordedSlots slots(BucketIndex bucket, std::uint16_t slot, std::size_t count) const;

  void retrieval(const RetrieveRequest& request);
  void root_write(std::uint16_t slot);
  /// Records that an eviction reads a path. `refs` are the versions of `buckets`.
  void eviction(const PathSlots& path, const std::vector<BucketIndex>& buckets,
                const std::vector<BucketVersionRef>& refs);
  /// Records that an eviction writes new versions of these buckets.
  void versions(const std::vector<BucketIndex>& buckets);
  /// Records healing, scrubbing or rebuilding. May be called on any thread.
  void upkeep(AccessLog::Operation operation, const RecordedSlots& which);

 private:
  AccessLog* const log_;
  const Control& control_;
};

}  // namespace s3oram
