// Accesses at a ring's server: values of buckets at points, and the log of the newest writes.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "serverd/ring/patience.h"
#include "serverd/ring/ring_record.h"
#include "serverd/ring/ring_store.h"

namespace s3oram::ring {

/// Used on one executor; not thread-safe. Each request belongs to the open session, and the store
/// is open.
class RingAccesses {
 public:
  RingAccesses(ServerState& state, RingStore& store, RingRecord& record)
      : state_(state), store_(store), record_(record), patience_(state.clock) {}

  Task<Result<Bytes>> retrieve(RetrieveRequest request);
  Task<Result<Bytes>> write_log(WriteLogRequest request);
  Task<Result<Bytes>> read_log(ReadLogRequest request);
  Task<Result<Bytes>> layout(LayoutRequest request);
  /// Called when another volume begins, or the store is reopened.
  void forget() { logged_.clear(); }

 private:
  struct LogSlot {
    std::optional<BucketStore::StampedSlot> content;
    bool is_lost = false;  // it was written, and is damaged or cannot be read
  };
  Task<Result<Bytes>> value_at(BucketVersionRef ref, Ask ask);
  /// Returns the access whose block is in this slot of the log; 0 if there is none, or the slot
  /// cannot be read.
  Result<std::uint64_t> logged(std::uint32_t slot);
  /// Reads slots of the log. Errors: failed (some slots cannot be read, which may pass).
  Result<std::vector<LogSlot>> log_slots(std::uint32_t first, std::uint32_t count);

  ServerState& state_;
  RingStore& store_;
  RingRecord& record_;
  Patience patience_;                              // about slots of the log
  std::map<std::uint32_t, std::uint64_t> logged_;  // accesses by log slot, as far as known
};

}  // namespace s3oram::ring
