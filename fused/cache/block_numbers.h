// Gives out block numbers of the device. Numbers stay dense: the lowest free one is taken first. A
// freed number is reused only after the commit that records its freeing, because a power cut before
// that commit would bring its old owner back. If there are backups (backups.h), it is also not
// reused before a backup that does not name it is whole. Not thread-safe.
#pragma once

#include <set>
#include <unordered_set>
#include <vector>

#include "oramcore/oram/block_device.h"

namespace s3oram {

class BlockNumbers {
 public:
  /// Starts over. `owned` are the blocks in use, ascending. Numbers in `never` are not given out.
  /// `backups`: whether there are backups, or will be.
  void reset(const std::vector<BlockId>& owned, std::set<BlockId> never = {}, bool backups = false);

  BlockId take();
  /// Called when the deletion of the number's extent is among the changes of the next commit.
  /// Returns true if the device may forget the content with that commit. Otherwise a backup may
  /// name the block, and end_backup() returns it later.
  bool release(BlockId block);

  void begin_commit();
  void end_commit(bool succeeded);

  /// Announces a backup of the state after the next commit, which may name every number taken now.
  void prepare_backup();
  /// Called when the backup's content, everything committed so far, is fixed.
  void begin_backup();
  /// Called when the backup has ended. Returns the blocks that backups no longer name. The device
  /// may forget their content, and their numbers become free with the next commit.
  std::vector<BlockId> end_backup(bool succeeded);

  /// Returns how many numbers are taken, or freed but not reusable yet.
  std::uint64_t used() const { return end_ - free_.size(); }
  /// Returns how many numbers an extent names, or will name.
  std::uint64_t owned() const {
    return used() - released_.size() - committing_.size() - uncovered_.size() - covering_.size();
  }
  bool uncommitted() const { return !released_.empty(); }
  /// Returns how many released numbers wait for a backup.
  std::uint64_t uncovered() const { return held_ + uncovered_.size() + covering_.size(); }

 private:
  BlockId end_ = 0;  // all numbers from here on are free
  std::set<BlockId> free_;
  std::set<BlockId> never_;
  struct Released {
    BlockId block = 0;
    bool held = false;  // a backup still needs the block
  };
  std::vector<Released> released_;    // no commit holds their freeing yet
  std::vector<Released> committing_;  // the running commit holds it
  std::uint64_t held_ = 0;            // how many of these two are held for a backup
  bool backups_ = false, preparing_ = false;
  std::unordered_set<BlockId> fresh_;  // taken since the last backup, which cannot name them
  std::vector<BlockId> uncovered_;     // freed, and perhaps named by the last backup
  std::vector<BlockId> covering_;      // freed, and not named by the backup under way
};

}  // namespace s3oram
