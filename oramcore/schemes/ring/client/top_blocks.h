// Reads and writes the blocks of the top in top.cache, and knows which of them may not be durable.
#pragma once

#include <map>
#include <optional>

#include "oramcore/base/log_limit.h"
#include "oramcore/client/client_scheme.h"
#include "oramcore/schemes/ring/client/open_ring.h"

namespace s3oram::ring {

/// One executor; not thread-safe.
class TopBlocks {
 public:
  explicit TopBlocks(OpenRing& ring) : ring_(ring) {}

  /// Takes over what vault.db says of the turns since the last sync. Call it before anything else.
  void set_loaded(std::map<Turn, std::uint64_t> logged) { logged_ = std::move(logged); }
  /// Returns whether every block of the top that was synced can be opened. Runs before anything
  /// else, because the log is not read for the sake of a single block that is wanted. Any thread,
  /// while nothing else uses the ring.
  Result<bool> is_whole();

  /// Reads a block of the top. Does not read it from the log, which has it too, because that would
  /// show that the block is wanted (TopRefill::begin()). Errors: corrupt.
  Task<Result<OpenedBlock>> read(BlockId block, Place place);
  /// Does the same for a slot that is held (TopCache::hold()), and lets it go.
  Task<Result<OpenedBlock>> read_held(BlockId block, Place place);
  /// Reads a random slot, which takes the same time as reading a block.
  Task<void> read_any();

  /// Writes a sealed block. Waits for room on a full disk. If a slot cannot be written for another
  /// reason, that part of the disk may be bad, so another slot replaces `slot`. Errors: the volume
  /// died.
  Task<Status> write(CacheSlot& slot, ByteSpan sealed);
  /// Returns why the last write failed; std::nullopt if it did not.
  const std::optional<Error>& unwritten() const { return unwritten_; }

  /// Records the access of a turn that is now acknowledged but not synced. Forgets those of turns
  /// whose slots in the log are in use again.
  void note_logged(Turn turn, std::uint64_t access);
  /// Forgets the accesses of the turns before `end`.
  void forget_logged(Turn end);
  /// Returns the access of a turn since the last sync; std::nullopt if it is forgotten.
  std::optional<std::uint64_t> logged(Turn turn) const;

 private:
  Task<Result<OpenedBlock>> read_slot(CacheSlot slot, BlockId block, std::uint64_t version);

  OpenRing& ring_;
  std::map<Turn, std::uint64_t> logged_;  // accesses of the turns since the last sync
  std::optional<Error> unwritten_;
  LogLimit told_;
};

}  // namespace s3oram::ring
