// Backups of the file tables, on the device itself. If vault.db is lost, the names and the extents
// of its files are restored from them (restore_files.h; docs/durability.md, "When vault.db is
// gone").
//
// A backup is a dump of the rows that were committed at one moment. Two backups are kept, each in
// blocks of its own, and the next one overwrites the older. So one of them is whole at any instant,
// and a new backup finds room even on a full device. Blocks that the last backup may name are not
// reused, and the device does not forget them, until a newer backup is whole (BlockNumbers).
//
// Threads: guarded by the `mutex` of the file system, as DataCache is. One make() at a time.
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
  std::uint64_t held = 0;  // freed blocks that are kept only for the last backup
};

/// It is wide because one backup spans many commits: the fields are its progress.
class Backups {
 public:
  /// Commits the file system, including what snapshot() returns. Releases the lock and waits.
  using Commit = std::function<PosixStatus(Lock&)>;

  /// While there is `damage`, no backup is made, because the last one may predate the damage.
  Backups(std::mutex& mutex, BlockDevice& device, DataCache& cache, TableDamage& damage,
          Timing& timing);

  /// Reads which blocks hold backups. `mapped` are the blocks that the device holds, ascending.
  Status open(const std::string& database, Disk& disk, const std::vector<BlockId>& mapped);
  bool any() const { return !last_.blocks.empty(); }
  /// Returns the blocks that hold backups, or did.
  std::vector<BlockId> blocks() const;

  /// Returns whether anything was, or may have been, committed after the last backup.
  bool is_outdated() const { return outdated_; }
  /// Returns when the next backup should be made: at least `every` after the last one, and late
  /// enough that backups take only a small part of the time; sooner if many blocks are held.
  /// Returns a time far in the future if the last backup is current and a new one would free no
  /// room.
  Timing::Time due(std::chrono::milliseconds every) const;

  /// Makes a backup; it is whole on success. The lock is held at entry and exit. If the device has
  /// no room for the backup while blocks are held, releases those blocks; then there is no backup
  /// until the next make() succeeds. `stop` is called before vault.db is read and between blocks;
  /// returning true ends the backup early, and the last one stays whole. Errors: ENOSPC, EIO,
  /// ECANCELED, EUCLEAN (the tables are damaged).
  PosixStatus make(Lock& lock, const Commit& commit, const std::function<bool()>& stop);
  /// Makes a make() that is reading vault.db call its `stop` soon. Call this when `stop` already
  /// returns true.
  void interrupt() {
    if (reading_) reading_->interrupt();
  }

  /// Returns what must commit with everything else: which blocks hold backups, and whether the last
  /// backup contains everything. May be empty. `changes`: whether the commit changes the tables
  /// that backups dump.
  std::function<Status(Database&)> snapshot(bool changes);
  void committed(bool succeeded);

  /// Returns the number of writes in flight.
  unsigned writing() const { return writing_; }
  /// Returns how many blocks the last backup needed.
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

  TablesDump* reading_ = nullptr;  // set while vault.db is checked

  BackupList last_, older_;
  bool making_ = false, failing_ = false, outdated_ = true;
  bool list_changed_ = false, list_committing_ = false, changes_committing_ = false;
  // True if vault.db says that the last backup contains everything: now, and after the commit under
  // way.
  bool noted_ = false, noting_ = false;
  unsigned writing_ = 0;
  std::optional<Error> failed_;  // error of a write; reset by await_writes()
  Timing::Time ended_;           // when the last attempt ended
  Timing::Time::duration took_{};
  LogLimit told_;
};

}  // namespace s3oram
