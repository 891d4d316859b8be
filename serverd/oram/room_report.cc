// Computes how high the tree can grow, and says whether the disk is full.
#include "serverd/oram/room_report.h"

namespace s3oram {

Result<Bytes> room_report(ServerState& state) {
  if (!state.bucket_store) return fail(Errc::wrong_volume, "server {} holds no volume", state.self);
  const std::uint64_t possible = state.bucket_store->possible_bucket_versions();
  unsigned height = state.control.height();
  // While the ballast is missing, the disk counts as full, because room goes to the ballast first.
  if (state.control.find_ballast())
    while (height < kMaxHeight && state.control.bucket_versions_needed(height + 1) <= possible)
      ++height;
  return encode(RoomAnswer{static_cast<std::uint8_t>(height)});
}

Result<Bytes> disk_report(ServerState& state) {
  if (!state.bucket_store) return fail(Errc::wrong_volume, "server {} holds no volume", state.self);
  return encode(DiskAnswer{.uses_reserve = !state.control.find_ballast()});
}

}  // namespace s3oram
