// A device of fixed-size numbered blocks: all that the file system knows of the oblivious store.
//
// Threads: every method may be called from any thread and never blocks. Callbacks, and the
// CommitParticipant, are called on the device's own thread; they must not block on the device.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "oramcore/base/bytes.h"
#include "oramcore/base/error.h"

namespace s3oram {

class Database;

/// Block numbers are dense: the device keeps flat arrays up to the highest one in use.
using BlockId = std::uint64_t;

/// How many more blocks a device takes, not counting what is in flight.
struct Room {
  std::uint64_t blocks = std::uint64_t{1} << 48;  // for which there is room already
  std::uint64_t more = 0;  // for which it could find room, as far as it knows
  bool can_grow = true;    // there may be more; if not, writes of further ones fail (disk_full)
};

/// What commits together with the device's own state, in one transaction.
class CommitParticipant {
 public:
  virtual ~CommitParticipant() = default;

  /// Fixes what this commit will hold. The function returned runs once, inside the transaction, on
  /// the device's database thread; if it or the commit fails, the participant must offer the same
  /// changes again (and newer ones) at the next snapshot().
  virtual std::function<Status(Database&)> snapshot() = 0;

  /// The commit whose content the last snapshot() fixed has ended. One commit runs at a time.
  virtual void committed(const Status& outcome) = 0;
};

class BlockDevice {
 public:
  virtual ~BlockDevice() = default;

  /// Bytes in a block.
  virtual std::uint32_t block_size() const = 0;

  /// One access. Gives the newest content written (acknowledged or not), block_size() bytes;
  /// zeros for a block never written or discarded.
  virtual void read(BlockId block, std::function<void(Result<Bytes>)> done) = 0;

  /// One access. `content` has block_size() bytes. `done` is called when the block is durable on
  /// all in-sync servers, and on the device's thread before any snapshot() whose commit makes it
  /// the block's committed content: what `done` records in the participant commits with it or
  /// later, never earlier. Until then a power cut leaves the former content.
  virtual void write(BlockId block, Bytes content, std::function<void(Status)> done) = 0;

  /// The same, and says beside the block that it is a part of a backup of what vault.db holds,
  /// until it is written otherwise: without a vault.db such blocks are found (Volume::rebuild).
  virtual void write_backup(BlockId block, Bytes content, std::function<void(Status)> done) = 0;

  /// No access. The content is forgotten with the next commit that starts after the call; its room
  /// counts as free at once.
  virtual void discard(BlockId block) = 0;

  /// Commits everything acknowledged so far, and the participant's changes, durably. `done` is
  /// called after a commit whose snapshot() came after this call.
  virtual void commit(std::function<void(Status)> done) = 0;

  /// At most one; set before the first operation. Null takes it away again, if nobody has begun
  /// another operation by then.
  virtual void set_participant(CommitParticipant* participant) = 0;

  virtual Room room() { return {}; }
  /// Somebody wants to see it: asks whoever has it, if that was long ago; room() tells afterwards.
  virtual void refresh_room() {}

  /// Someone does without a write because room() is too little: looks for more, but not often. A
  /// write that fails for want of room does so too.
  virtual void look_for_room() {}

  /// The blocks that hold content, ascending. Once, and before the first operation (at mount, to
  /// find blocks that no file owns).
  virtual std::vector<BlockId> mapped() = 0;
};

}  // namespace s3oram
