// Looks after a migration of a mounted volume: has its blocks copied, ends the migration when every
// block has moved, and has the volume opened again if a crash or an error cut the migration's
// beginning short.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "fused/files/file_system.h"
#include "oramcore/volume/volume.h"

namespace s3oram {

/// The reason why a migration does not end although every block has moved.
struct EndOfMigration {
  std::string failure;  // the reason and what to do; empty if no end has failed
  bool is_retried = true;
};

/// A thread that checks the migration every second. The volume and the mounted files must outlive
/// it.
class MigrationWatch {
 public:
  static Result<std::unique_ptr<MigrationWatch>> start(Volume& volume, FileSystem& files);
  MigrationWatch(const MigrationWatch&) = delete;
  MigrationWatch& operator=(const MigrationWatch&) = delete;
  /// Waits for a check that is under way.
  ~MigrationWatch();
  /// Stops using the files, which are about to be closed; still opens the volume, which closing
  /// them may need. Ends a backup of the names that is under way, and waits for it.
  void leave_files();
  /// Returns the outcome of the last try to end the migration. Any thread.
  EndOfMigration end() const;

 private:
  MigrationWatch(Volume& volume, FileSystem& files) : volume_(volume), files_(files) {}
  void run();
  void look();
  void try_end();
  EndOfMigration not_backed_up(int error) const;
  void later(EndOfMigration end);

  Volume& volume_;
  FileSystem& files_;
  bool begun_ = false;            // the log says that a migration is under way
  mutable std::mutex end_mutex_;  // guards end_
  EndOfMigration end_;
  std::chrono::steady_clock::time_point next_end_;  // do not try to end the migration before
  std::chrono::seconds pause_{0};                   // pause after the next failure
  std::mutex files_mutex_;                          // held while the files are used
  bool may_use_files_ = true;
  std::mutex mutex_;  // guards stopping_
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace s3oram
