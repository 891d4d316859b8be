// Gives a vault its files back whose vault.db was lost: the tables of files are made anew from the
// newest whole backup (backups.h) that the device holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "fused/backup/backup_list.h"
#include "fused/tables/rows.h"
#include "oramcore/oram/block_device.h"

namespace s3oram {

struct RestoredFiles {
  std::int64_t time = 0;   // of the backup: ns since 1970
  std::uint64_t rows = 0;  // of all tables
  std::size_t blocks = 0;  // that hold the backup
};

/// What a vault.db knows of files.
struct FilesDump {
  Bytes tables;                     // a dump (backup_format.h)
  std::vector<BackupList> backups;  // that the device holds
  Ino reserved_inodes = 0;          // as read_reserved() gives it
};
/// `disk` has the database's key, if it is sealed. Errors: damaged_vault, if they cannot be read.
Result<FilesDump> dump_files(const std::filesystem::path& database, Disk& disk = system_disk());
/// Has them in another vault.db, which is not open, in place of any that are there; durably.
Status store_files(const std::filesystem::path& database, const FilesDump& files,
                   Disk& disk = system_disk());

/// Used once. It must outlive the device, or its use by another participant.
class FilesRestore final : public CommitParticipant {
 public:
  /// `candidates`: the blocks that are said to be parts of backups. Makes the tables in the
  /// database that the device commits to, in place of any that are there, and commits; waits for
  /// it. Nobody else uses the device. Errors: damaged_vault (no whole backup; nothing was changed).
  Result<RestoredFiles> run(BlockDevice& device, const std::vector<BlockId>& candidates);

  // CommitParticipant, called on the device's threads. It commits by itself too.
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
