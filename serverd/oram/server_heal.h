// One server's part in the healing of damaged slots.
#pragma once

#include <cstdint>
#include <vector>

#include "oramcore/base/log_limit.h"
#include "serverd/oram/server_root.h"
#include "serverd/oram/server_state.h"
#include "serverd/oram/slot_address.h"
#include "serverd/oram/sums.h"

namespace s3oram {

class ServerHeal {
 public:
  ServerHeal(ServerState& state, Sums& sums, ServerRoot& root)
      : state_(state), sums_(sums), root_(root) {}

  Task<Result<Bytes>> damage(DamageRequest request, Payload&);
  Task<Result<Bytes>> check(CheckRequest request, Payload&);
  Task<Result<Bytes>> read_slot(ReadSlotRequest request, Payload&);
  Task<Result<Bytes>> heal_slot(HealSlotRequest request, Payload&);
  Task<Result<Bytes>> contribute(ContributeRequest request, Payload&);
  Task<Result<Bytes>> mend(MendRequest request, Payload&);

 private:
  /// The place where this server keeps a slot that the client names: in the root buffer, or in a
  /// bucket.
  struct Place {
    BucketIndex bucket = 0;
    BucketVersionRef ref;
    std::uint16_t slot = 0;
    bool in_root_buffer = false;
  };
  Result<Place> place_of(SlotAddress at) const;
  /// Returns the slots of lost root writes among those before `written`.
  Result<std::vector<SlotAddress>> damaged_root(std::uint64_t tree_version,
                                                WriteNumber written) const;
  Task<Status> add_damaged(BucketIndex bucket, std::vector<SlotAddress>& to);
  Task<Status> add_missing(std::vector<SlotAddress>& to);
  Task<Status> rewrite_root_buffer();
  Task<Result<Bytes>> share_in(SlotAddress at);
  Task<Status> write_healed(SlotAddress at, std::uint64_t access, ByteSpan share);

  ServerState& state_;
  Sums& sums_;
  ServerRoot& root_;
  LogLimit told_of_healing_;
};

}  // namespace s3oram
