// Reads servers' shares of single slots without checking them, and writes shares that were put
// right.
#pragma once

#include "oramcore/base/log_limit.h"
#include "oramcore/client/volume_state.h"

namespace s3oram {

/// One executor; not thread-safe.
class SlotShares {
 public:
  explicit SlotShares(VolumeState& state) : state_(state) {}

  /// Reads each server's share of a slot. Errors: corrupt (damaged), failed (its disk cannot read
  /// it), ...
  Task<std::vector<Result<Payload>>> read(SlotAddress at, const Bytes& servers);
  Task<Status> write(Party server, SlotAddress at, ByteSpan share);
  /// Returns the slots of a path, in their order on the path.
  std::vector<SlotAddress> on_path(const PathSlots& path, Leaf leaf) const;
  /// Returns the access whose root write is in the slot; 0 if the slot is not in the root buffer.
  std::uint64_t access_in(SlotAddress at) const;
  /// Returns how many slots are read at a time.
  std::size_t at_once() const;

  /// Returns whether Servers::ask() may return this error because the server refuses, although the
  /// others do not. An honest server may refuse to write a slot that it does not have, and calls a
  /// share damaged if it is.
  static bool is_refusal(Errc code) {
    return code == Errc::bad_request || code == Errc::corrupt || code == Errc::former_view;
  }

  /// Counts and logs a share that was put right.
  void healed(Party server, SlotAddress at);
  /// Counts a slot that is lost because these servers say that their shares are damaged.
  void lost(const Bytes& damaged_at = {}) {
    ++so_far_.lost;
    for (const Party server : damaged_at) ++so_far_.lost_at[server];
  }
  /// Counts a bucket whose new shares cannot be compared with anything.
  void unproven() { ++so_far_.unproven; }
  void hindered(std::string why) { so_far_.hindrance = std::move(why); }
  const Healed& so_far() const { return so_far_; }

 private:
  VolumeState& state_;
  Healed so_far_;
  LogLimit told_;
};

}  // namespace s3oram
