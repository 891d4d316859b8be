// Tracks which turns' blocks may be missing from top.cache because a sync of the file failed.
//
// After a failed sync the kernel may have dropped what was written before, and a later sync
// succeeds nevertheless. So what may be gone has to be written again, and then synced. Until then
// the log at the server is the durable copy, as it is for every write before a sync. The number of
// attempts depends only on public counters, because each of them reads part of the log.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <optional>

#include "oramcore/base/error.h"
#include "oramcore/schemes/ring/protocol/ring_params.h"

namespace s3oram::ring {

class CacheDoubt {
 public:
  /// At most `most_skipped` opportunities to sync pass between two attempts.
  explicit CacheDoubt(std::uint64_t most_skipped) : most_skipped_(most_skipped) {}

  /// A sync has failed. Turns before `end` may have written to the file already.
  void failed(Error error, Turn end) {
    failure_ = std::move(error);
    end_ = std::max(end_, end);
    wait_ = std::min(most_skipped_, pause_);
    pause_ = std::min(most_skipped_, 2 * pause_ + 1);
  }
  /// Turns before `synced` were written again if there was doubt, and then synced.
  void synced(Turn synced) {
    pause_ = 0;
    if (synced >= end_) failure_.reset();
  }
  /// Returns whether this opportunity to sync passes.
  bool passes() { return failure_ && wait_ > 0 && wait_-- > 0; }

  /// Returns why the newest sync failed; std::nullopt if there is no doubt.
  const std::optional<Error>& failure() const { return failure_; }

 private:
  const std::uint64_t most_skipped_;
  std::optional<Error> failure_;
  Turn end_ = 0;
  std::uint64_t pause_ = 0, wait_ = 0;
};

}  // namespace s3oram::ring
