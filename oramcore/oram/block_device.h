// A device of fixed-size, numbered blocks: the file system's entire interface to the oblivious
// store.
//
// Threads: every method may be called on any thread, and none blocks. Callbacks and the
// CommitParticipant are called on the device's own thread, and must not block on the device.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "oramcore/base/bytes.h"
#include "oramcore/base/error.h"

namespace s3oram {

class Database;

/// The number of a block. Block numbers are dense, because the device keeps flat arrays up to the
/// highest one in use.
using BlockId = std::uint64_t;

/// The number of blocks that a device can still take, not counting writes in flight.
struct Room {
  std::uint64_t blocks = std::uint64_t{1} << 48;  // blocks for which there is room already
  std::uint64_t more = 0;                         // blocks for which it may find room
  bool can_grow = true;  // false if writes of further blocks fail (disk_full)
};

/// State that commits together with the device's own, in one transaction.
class CommitParticipant {
 public:
  virtual ~CommitParticipant() = default;

  /// Fixes the changes that this commit will hold. The returned function writes them: it runs once,
  /// inside the transaction, on the device's database thread. If it or the commit fails, the
  /// participant must offer the same changes again (and newer ones) at the next snapshot().
  virtual std::function<Status(Database&)> snapshot() = 0;

  /// Reports the outcome of the commit whose content the last snapshot() fixed. Commits do not
  /// overlap.
  virtual void committed(const Status& outcome) = 0;
};

class BlockDevice {
 public:
  virtual ~BlockDevice() = default;

  /// Returns the number of bytes in a block.
  virtual std::uint32_t block_size() const = 0;

  /// Reads a block with one access. `done` gets the newest content written (acknowledged or not),
  /// block_size() bytes; zeros for a block that was never written or was discarded.
  virtual void read(BlockId block, std::function<void(Result<Bytes>)> done) = 0;

  /// Writes a block with one access. `content` has block_size() bytes. `done` is called when the
  /// block is durable on all servers in step, and before any snapshot() whose commit makes it the
  /// block's committed content. So whatever `done` records in the participant commits with it or
  /// later, never earlier. Until that commit, a power cut leaves the earlier content.
  virtual void write(BlockId block, Bytes content, std::function<void(Status)> done) = 0;

  /// Writes a block as write() does, and marks it as part of a backup of vault.db until it is
  /// written again with write(). Such blocks can be found without a vault.db (Volume::rebuild).
  virtual void write_backup(BlockId block, Bytes content, std::function<void(Status)> done) = 0;

  /// Discards a block without an access. Its content is forgotten by the next commit that starts
  /// after the call; its room counts as free immediately.
  virtual void discard(BlockId block) = 0;

  /// Durably commits everything acknowledged so far, and the participant's changes. `done` is
  /// called after a commit whose snapshot() came after this call.
  virtual void commit(std::function<void(Status)> done) = 0;

  /// Sets the only participant, before the first operation. Null removes it, if no operation has
  /// begun since.
  virtual void set_participant(CommitParticipant* participant) = 0;

  /// Returns a number that changes when an access that has not ended, or work for which accesses
  /// wait, gets ahead: a server has done its part, or a slow disk has completed a commit. It stops
  /// changing when a server that is needed no longer does its part.
  virtual std::uint64_t steps() const { return 0; }

  virtual Room room() { return {}; }
  /// Asks the servers how much room they have, if their last answer is old. room() returns the
  /// result later.
  virtual void refresh_room() {}

  /// Looks for more room, but limits how often. Call it when a write is not made because room() is
  /// too small; a write that fails for lack of room does the same.
  virtual void look_for_room() {}

  /// Returns the blocks that hold content, ascending. Must be called once, before the first
  /// operation (at mount, to find blocks that no file owns).
  virtual std::vector<BlockId> mapped() = 0;
};

}  // namespace s3oram
