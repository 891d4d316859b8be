// Gives accesses their turns, some of which belong to the client: in those it logs blocks of the
// top again, before their slots in the log are reused (docs/protocol-ring.md, "One access").
#pragma once

#include <functional>
#include <optional>
#include <set>

#include "oramcore/schemes/ring/client/rewriter.h"
#include "oramcore/schemes/ring/client/top_refill.h"

namespace s3oram::ring {

/// One executor; not thread-safe.
class Turns {
 public:
  /// `log_again` uses a turn to log a block again, or an empty slot (kNoBlock); release() follows.
  Turns(OpenRing& ring, TopRefill& refill, const Rewriter& rewriter,
        std::function<void(Turn, BlockId)> log_again)
      : ring_(ring), refill_(refill), rewriter_(rewriter), log_again_(std::move(log_again)) {}

  /// Begins to give out turns, from OpenRing::next_turn on.
  void open();
  bool is_open() const { return opened_; }

  /// Reserves a turn, which the caller must use whatever happens. Only one access to a block has a
  /// turn at a time: a second one would have to ask after its turn, which would show that both want
  /// the same block. Errors: the volume died.
  Task<Result<Turn>> reserve(BlockId block);
  /// Returns whether the turn must wait, because its slot of the log has a block that this turn may
  /// have to log again, and cannot yet: either the cache lacks the block, which is then restored,
  /// or an earlier turn has it. The turns after this one could not help, because they count after
  /// it.
  bool must_wait(Turn turn);
  /// Ends the access to a block that has a turn.
  void release(BlockId block);

  /// Returns the block that this turn logs again: the oldest one of the top, if its slot in the log
  /// will be reused soon, or if this is a maintenance turn (kNoBlock if there is none). `wanted`,
  /// the block that waits for the turn, does not count as due, because that access itself logs it.
  /// But if the turn belongs to the client because of another block or of its number, and is the
  /// last one that can log `wanted`, it logs `wanted`. Returns std::nullopt if the turn is free.
  /// Call this only if must_wait(turn) is false.
  std::optional<BlockId> to_log_again(Turn turn, BlockId wanted) const;

 private:
  OpenRing& ring_;
  TopRefill& refill_;
  const Rewriter& rewriter_;
  const std::function<void(Turn, BlockId)> log_again_;
  bool opened_ = false;
  std::set<BlockId> in_flight_;  // blocks for which an access has a turn
};

}  // namespace s3oram::ring
