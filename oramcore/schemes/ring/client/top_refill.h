// Restores blocks of the top in top.cache from the server's log, which holds all of them. Reads the
// log only in ways that do not depend on which block is wanted.
#pragma once

#include <set>

#include "oramcore/schemes/ring/client/top_blocks.h"

namespace s3oram::ring {

/// One executor; not thread-safe.
class TopRefill {
 public:
  TopRefill(OpenRing& ring, TopBlocks& top) : ring_(ring), top_(top) {}

  /// Restores the cache when the volume is opened. A process that ended without closing may have
  /// lost what it had not synced; a file that is gone, truncated or damaged may have lost anything.
  /// Returns whether it has written to the cache, which is then not synced. Errors: wrong_volume
  /// (the log lacks acknowledged writes), ...
  Task<Result<bool>> restore();
  /// Begins to restore slots that did not open (OpenRing::not_cached), if there are any. Call this
  /// only at times that do not depend on which block is wanted.
  void begin();

  /// Turns whose write is needed, and not in the log: the server has lost it, or sends something
  /// else.
  struct Lacking {
    std::set<Turn> lost, altered;
    bool empty() const { return lost.empty() && altered.empty(); }
  };
  /// Copies the writes of the turns from `from` on from the log to the cache, as far as their
  /// blocks are still in the top. Returns the turns that the log lacks: those of blocks of the top
  /// and, of the turns since the last sync, all whose write is not the acknowledged one. Call this
  /// only at times that do not depend on which block is wanted.
  Task<Result<Lacking>> refill(Turn from);

 private:
  enum class InLog : std::uint8_t { found, lost, altered };
  Task<Result<bool>> restore_from(Turn from);
  Task<void> refill_all();
  bool take_refilled(Turn until, const Lacking& lacking);
  Task<InLog> refill_slot(Turn turn, const LoggedBlock& logged);

  OpenRing& ring_;
  TopBlocks& top_;
  bool refilling_ = false;
};

}  // namespace s3oram::ring
