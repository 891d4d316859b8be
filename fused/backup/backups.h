// Backups of the tables of files on the device itself: what the names of a vault, and which block
// holds what of a file, are restored from when its vault.db is gone (restore_files.h;
// docs/durability.md, "When vault.db is gone").
//
// A backup is a dump of the rows that were committed at one moment. Two of them are kept, each in
// blocks of its own: the next one is written over the older. So one is whole at any instant, and a
// new one finds room on a full device. What the last one may name is not given out again, and not
// forgotten by the device, before a newer one is whole (BlockNumbers).
//
// Threads: `mutex` of the file system guards it, as it does DataCache; make() is one at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fused/backup/backup_format.h"
#include "fused/backup/backup_list.h"
#include "fused/cache/data_cache.h"
#include "oramcore/base/log_limit.h"
#include "oramcore/base/random.h"

namespace s3oram {

struct BackupStatus {
  bool exists = false;
  std::int64_t time = 0;  // when the last one was made: ns since 1970
  bool current = false;   // nothing has changed since
  std::uint64_t blocks = 0;
  std::uint64_t held = 0;  // blocks that are kept for it alone
};

class Backups {
 public:
  /// `commit` commits the file system, with what snapshot() gives; it releases the lock and waits.
  using Commit = std::function<PosixStatus(Lock&)>;

  /// While there is `damage`, none is made: the last one is from before it, or can be.
  Backups(std::mutex& mutex, BlockDevice& device, DataCache& cache, TableDamage& damage,
          Timing& timing);

  /// Reads which blocks hold backups: those of `mapped`, ascending.
  Status open(const std::string& database, Disk& disk, const std::vector<BlockId>& mapped);
  bool any() const { return !last_.blocks.empty(); }
  /// The blocks that hold backups, or did.
  std::vector<BlockId> blocks() const;

  /// Something was committed that the last backup does not know, or may have been.
  bool is_outdated() const { return outdated_; }
  /// When the next one should be made: at most so often, and never more than a small part of the
  /// time; sooner if much is held. Far in the future if the last one is current and no room would
  /// come free.
  Timing::Time due(std::chrono::milliseconds every) const;

  /// Makes one; it is whole when this returns ok. The lock is held at entry and exit. If the device
  /// has no room for it and something is held, that is let go, and until the next succeeds there is
  /// no backup.
  /// `stop`, looked at between blocks, ends it early. Errors: ENOSPC, EIO, ECANCELED, EUCLEAN (the
  /// tables are damaged, and nothing was changed).
  PosixStatus make(Lock& lock, const Commit& commit, const std::function<bool()>& stop);

  /// What is to commit with everything else: which blocks hold backups, and whether the last one is
  /// of everything. May be empty. `changes`: something else is to commit that backups hold.
  std::function<Status(Database&)> snapshot(bool changes);
  void committed(bool succeeded);

  /// Writes in flight.
  unsigned writing() const { return writing_; }
  /// Blocks that the last one needed.
  std::size_t last_blocks() const { return last_.used; }
  BackupStatus status() const;

 private:
  PosixStatus make_now(Lock& lock, const Commit& commit, const std::function<bool()>& stop);
  PosixStatus write_all(Lock& lock, TablesDump& dump, BackupList& next,
                        const std::function<bool()>& stop);
  int failed_reading(const Error& error);
  PosixStatus give_up(Lock& lock, const Commit& commit);
  void write(BlockId block, Bytes content);
  PosixStatus await_writes(Lock& lock, unsigned most);
  void free(BlockId block);
  void forget(const std::vector<BlockId>& blocks);

  std::mutex& mutex_;
  BlockDevice& device_;
  DataCache& cache_;
  TableDamage& damage_;
  Timing& timing_;
  std::string database_;
  Disk* disk_ = nullptr;
  SystemRandom random_;

  BackupList last_, older_;
  bool making_ = false, failing_ = false, outdated_ = true;
  bool list_changed_ = false, list_committing_ = false, changes_committing_ = false;
  // Whether vault.db says that the last one is of everything; and will, with the commit under way.
  bool noted_ = false, noting_ = false;
  unsigned writing_ = 0;
  std::optional<Error> failed_;  // a write, since it was last looked at
  Timing::Time ended_;           // the last attempt
  Timing::Time::duration took_{};
  LogLimit told_;
};

}  // namespace s3oram
