// Answers to a client that has lost its own state (oramcore/client/rebuild.h): where this server
// stands, and its shares of all labels; and to one that looks whether all servers' shares fit
// together: digests.
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

  /// Outside of a session. There is a volume.
  Result<Bytes> survey() const;
  Task<Result<Bytes>> layout(LayoutRequest request, Payload&);
  Task<Result<Bytes>> labels(LabelsRequest request, Payload&);
  Task<Result<Bytes>> digests(DigestsRequest request, Payload&);
  Task<Result<Bytes>> heads(HeadsRequest request, Payload&);

 private:
  /// Called with a slot and the share in it; without a share if that is damaged or lost.
  using SlotVisitor = std::function<void(std::uint16_t slot, std::optional<ByteSpan> share)>;
  /// Visits the slots of the bucket that are not zero, ascending.
  Task<Status> visit_slots(std::uint64_t tree_version, BucketIndex bucket, SlotVisitor visit);
  Status visit_bucket_version(BucketIndex bucket, BucketVersionRef ref, const SlotVisitor& visit);

  ServerState& state_;
};

}  // namespace s3oram
