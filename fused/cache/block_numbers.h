// Which block numbers of the device files may take. Numbers stay dense: the lowest free one is
// taken first. A freed number is taken again only after the commit that holds its freeing, since
// until then a power cut would bring its old owner back; and, where there are backups (backups.h),
// only after one that does not name it any more. Not thread-safe.
#pragma once

#include <set>
#include <unordered_set>
#include <vector>

#include "oramcore/oram/block_device.h"

namespace s3oram {

class BlockNumbers {
 public:
  /// `owned` ascending: the blocks that extents name. `never`: numbers that are not given out.
  /// `backups`: there are some, or will be.
  void reset(const std::vector<BlockId>& owned, std::set<BlockId> never = {}, bool backups = false);

  BlockId take();
  /// The number's extent has been deleted, in the changes that the next commit takes along. True:
  /// what the block holds can be forgotten with that commit; otherwise a backup may name it, and
  /// end_backup() tells when.
  bool release(BlockId block);

  void begin_commit();
  void end_commit(bool succeeded);

  /// A backup is to be made of what the next commit leaves: it may name whatever is taken now.
  void prepare_backup();
  /// Its content is fixed: all that has committed.
  void begin_backup();
  /// The backup has ended. Gives the blocks that no backup names any more: what they hold can be
  /// forgotten, and with the next commit their numbers are free.
  std::vector<BlockId> end_backup(bool succeeded);

  /// Numbers that are taken, or not free yet.
  std::uint64_t used() const { return end_ - free_.size(); }
  /// Numbers that an extent may name, now or once it is written.
  std::uint64_t owned() const {
    return used() - released_.size() - committing_.size() - uncovered_.size() - covering_.size();
  }
  bool uncommitted() const { return !released_.empty(); }
  /// Of the numbers that are not free yet, those that wait for a backup.
  std::uint64_t uncovered() const { return held_ + uncovered_.size() + covering_.size(); }

 private:
  BlockId end_ = 0;  // all numbers from here on are free
  std::set<BlockId> free_;
  std::set<BlockId> never_;
  struct Released {
    BlockId block = 0;
    bool held = false;  // for a backup
  };
  std::vector<Released> released_;    // that no commit holds yet
  std::vector<Released> committing_;  // that the running commit holds
  std::uint64_t held_ = 0;            // of these two
  bool backups_ = false, preparing_ = false;
  std::unordered_set<BlockId> fresh_;  // that no backup names: taken since the last was fixed, ...
  std::vector<BlockId> uncovered_;     // freed, and perhaps named by the last backup
  std::vector<BlockId> covering_;      // of these, what the backup under way does not name
};

}  // namespace s3oram
