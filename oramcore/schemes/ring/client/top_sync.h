// Syncs top.cache, and goes on with the server's log while that fails (CacheDoubt).
#pragma once

#include <string>

#include "oramcore/schemes/ring/client/cache_doubt.h"
#include "oramcore/schemes/ring/client/top_refill.h"

namespace s3oram::ring {

/// One executor; not thread-safe.
class TopSync {
 public:
  TopSync(OpenRing& ring, TopBlocks& top, TopRefill& refill)
      : ring_(ring),
        top_(top),
        refill_(refill),
        doubt_(ring.params.log_slots / ring.params.evict_every) {}

  /// Syncs the cache; the next commit records that everything acknowledged now is durable in it.
  /// After a failed sync that is no longer so, and the volume goes on with the log.
  Task<void> sync();
  /// Syncs the cache unless that may need the server, which may be away for good. Otherwise the
  /// next mount reads more of the log.
  Task<void> sync_alone();
  /// Returns why top.cache cannot be written or synced; or an empty string.
  std::string trouble() const;

 private:
  Task<bool> write_doubtful_again();
  Task<void> sync_until(Turn written);

  OpenRing& ring_;
  TopBlocks& top_;
  TopRefill& refill_;
  bool syncing_ = false;
  CacheDoubt doubt_;
};

}  // namespace s3oram::ring
