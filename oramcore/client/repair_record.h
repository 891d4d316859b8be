// Records in vault.db which repairs have not ended, and which restored shares have not been
// compared with their marks. A repair can be cut short at any moment. Without the record, nobody
// would know later that shares which another server has sent were never proven.
#pragma once

#include "oramcore/client/committer.h"

namespace s3oram {

/// One executor; not thread-safe. Its content is VolumeState::repairs.
class RepairRecord {
 public:
  RepairRecord(VolumeState& state, Committer& committer) : state_(state), committer_(committer) {}

  /// Durably adds a repair of these servers.
  Task<Status> begin(const std::set<Party>& servers);
  /// Removes the repairs of these servers. Like every removal it becomes durable with the next
  /// commit. If that never happens, something is proven twice.
  void end(const std::set<Party>& servers);
  /// Durably adds shares of these servers that are about to be restored. Call it before anything is
  /// written there.
  Task<Status> add(const ServersBySlot& mended);
  /// Returns the part of the record that lies in the buckets from `first` on and before `end`.
  ServersBySlot unproven(BucketIndex first, BucketIndex end) const;
  /// Removes the shares of that part.
  void remove(BucketIndex first, BucketIndex end);
  /// Removes all shares.
  void remove_all();

 private:
  Task<Status> commit();

  VolumeState& state_;
  Committer& committer_;
};

}  // namespace s3oram
