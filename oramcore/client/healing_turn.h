// Admits one healing at a time. While one is under way nothing is decided, so that a slot is not
// replaced in one tree version and moved in the next.
#pragma once

#include "oramcore/client/volume_state.h"

namespace s3oram {

/// One executor; not thread-safe.
class HealingTurn {
 public:
  explicit HealingTurn(VolumeState& state) : state_(state) {}

  bool under_way() const { return under_way_; }
  /// Waits until nothing is being healed. Its callers, which decide something or have found damage,
  /// run before the next healing.
  Task<void> await_end();
  /// Waits until nothing is being healed and no caller waits in await_end().
  Task<void> await_turn();
  /// Begins a healing, and waits until retrievals read the newest tree version. Must be called
  /// after one of the two functions above, without a suspension in between.
  Task<void> begin();
  void end();

 private:
  VolumeState& state_;
  bool under_way_ = false;
  std::size_t waiting_ = 0;  // callers in await_end()
  Event changed_;
};

}  // namespace s3oram
