// Answers a client that has lost its own state (oramcore/client/rebuild.h) with this server's tree
// version and its shares of all labels, and a client that compares the servers' shares with
// digests.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "serverd/oram/server_state.h"
#include "serverd/oram/slot_address.h"

namespace s3oram {

class ServerLabels {
 public:
  explicit ServerLabels(ServerState& state) : state_(state) {}

  /// Answers outside of a session. There must be a volume.
  Result<Bytes> survey() const;
  Task<Result<Bytes>> layout(LayoutRequest request, Payload&);
  Task<Result<Bytes>> labels(LabelsRequest request, Payload&);
  Task<Result<Bytes>> digests(DigestsRequest request, Payload&);
  Task<Result<Bytes>> heads(HeadsRequest request, Payload&);

 private:
  /// Called with a slot and the share in it; without a share if the share is damaged or lost.
  using SlotVisitor = std::function<void(std::uint16_t slot, std::optional<ByteSpan> share)>;
  /// Visits the slots of the bucket that are not zero, in ascending order.
  Task<Status> visit_slots(std::uint64_t tree_version, BucketIndex bucket, SlotVisitor visit);
  Status visit_bucket_version(BucketIndex bucket, BucketVersionRef ref, const SlotVisitor& visit);

  ServerState& state_;
};

}  // namespace s3oram
