// Restores the files of a vault whose vault.db was lost: recreates the file tables from the newest
// whole backup (backups.h) that the device holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "fused/backup/backup_list.h"
#include "fused/tables/rows.h"
#include "oramcore/oram/block_device.h"

namespace s3oram {

struct RestoredFiles {
  std::int64_t time = 0;   // when the backup was made: ns since 1970
  std::uint64_t rows = 0;  // rows of all tables
  std::size_t blocks = 0;  // blocks of the backup
};

/// All rows of a vault.db that are about files.
struct FilesDump {
  Bytes tables;                     // a dump (backup_format.h)
  std::vector<BackupList> backups;  // the backups on the device
  Ino reserved_inodes = 0;          // read_reserved()
  bool rows_lost = false;           // kRowsLost is noted
};
/// Reads the files of `database`. `disk` has the key of a sealed database. Errors: damaged_vault.
Result<FilesDump> dump_files(const std::filesystem::path& database, Disk& disk = system_disk());
/// Replaces the files of another vault.db, which is not open, durably.
Status store_files(const std::filesystem::path& database, const FilesDump& files,
                   Disk& disk = system_disk());

/// Where to look for the last backup.
struct BackupSearch {
  std::vector<BlockId> candidates;  // the blocks labelled as parts of backups
  bool blocks_lost = false;         // blocks are known to be lost or older, perhaps some of these
  bool accept_older = false;        // use a backup even if it may not be the last one
};

/// Used once. The object must live until the device is destroyed or has another participant.
class FilesRestore final : public CommitParticipant {
 public:
  /// Replaces the file tables in the database that the device commits to, and waits for the commit.
  /// Nothing else may use the device meanwhile. Errors (nothing was changed): damaged_vault (no
  /// whole backup), corrupt (the newest whole one may not be the last one that was made; blocks
  /// that only an older one names may have been reused).
  Result<RestoredFiles> run(BlockDevice& device, const BackupSearch& search);

  // CommitParticipant. Called on the device's threads, for the device's own commits too.
  std::function<Status(Database&)> snapshot() override;
  void committed(const Status& outcome) override;

 private:
  Status fill(Database& database);

  Bytes dump_;
  BackupList list_;
  std::uint64_t rows_ = 0;
  bool done_ = false;
};

}  // namespace s3oram
