// Gives accesses their root write numbers, and spreads accesses over the time that evictions and
// uploads take.
#pragma once

#include "oramcore/client/eviction_loop.h"
#include "oramcore/client/root_writer.h"

namespace s3oram {

/// One executor; not thread-safe.
class WriteNumbers {
 public:
  /// The functions that need the numbers.
  struct Users {
    std::function<std::size_t()> blocks_in_use;
    /// Uses a number that is reserved for maintenance.
    std::function<void(WriteNumber)> maintain;
  };
  WriteNumbers(VolumeState& state, const EvictionLoop& evictions, const RootWriter& root_writer,
               Users users)
      : state_(state), evictions_(evictions), root_writer_(root_writer), users_(std::move(users)) {}

  /// Starts to give out numbers, beginning with the first that is not written.
  void open();
  bool is_open() const { return opened_; }
  /// Waits until there is room in the root and on the line, and returns a number, which the caller
  /// must use whatever happens. Errors: the volume died, or why evictions have stopped.
  Task<Result<WriteNumber>> reserve();
  /// Sets how long the last retrieval took.
  void set_retrieval_time(Duration took) { last_retrieval_ = took; }

 private:
  bool is_maintenance(WriteNumber write_number) const;
  Duration is_due() const;
  bool uplink_full() const;

  VolumeState& state_;
  const EvictionLoop& evictions_;
  const RootWriter& root_writer_;
  const Users users_;
  bool opened_ = false;
  WriteNumber next_ = 0;  // the next to be reserved
  Duration last_retrieval_{};
};

}  // namespace s3oram
