// Retrievals (Subroutine 1): get one slot of a path from all servers, in a tree version that they
// all hold.
#pragma once

#include "oramcore/base/log_limit.h"
#include "oramcore/client/healer.h"
#include "oramcore/client/slot_query.h"

namespace s3oram {

/// One executor; not thread-safe.
class Retriever {
 public:
  Retriever(VolumeState& state, SlotShares& slots, HealingTurn& turn, Settler& settler,
            Healer& healer);

  /// Returns the block; std::nullopt if it is not on the path, in which case the query selects no
  /// slot and the answer must be zeros. For a block in the stash the answer is not needed. After a
  /// wrong answer, asks again with fresh shares; where the answers of single servers show which of
  /// them are wrong, each server answers for itself. If that fails too, looks the slot up in the
  /// servers' raw shares of the path. All of this is the same for every block, and for none.
  /// Errors: corrupt, ...
  Task<Result<std::optional<OpenedBlock>>> retrieve(WriteNumber write_number, BlockId block,
                                                    Leaf leaf);

 private:
  struct PathAnswer {
    Bytes slot;
    bool selected = false;      // false if the query selected no slot
    std::uint64_t version = 0;  // of the block when it was asked for
  };
  struct Judgement;
  std::uint64_t healings_so_far() const;
  enum class Asked { together, each };
  Task<Result<PathAnswer>> inner_product(WriteNumber write_number, BlockId block, Leaf leaf,
                                         Asked asked);
  Task<Result<Bytes>> ask(WriteNumber write_number, Leaf leaf, const PathSlots& path,
                          std::size_t index, Asked asked);
  Task<Judgement> judge(BlockId block, const PathAnswer* answer, std::optional<unsigned> height);
  Task<Result<PathAnswer>> read_raw(BlockId block, Leaf leaf);
  Task<Status> read_raw_slots(std::vector<SlotAddress>& slots, SlotAddress wanted,
                              const Bytes& servers, PathAnswer& answer);
  Task<Status> wait_after(Error error);

  VolumeState& state_;
  SlotShares& slots_;
  HealingTurn& turn_;
  Settler& settler_;
  Healer& healer_;
  SlotQuery query_;
  const Bytes blank_;  // a sealed block
  LogLimit told_;
};

}  // namespace s3oram
