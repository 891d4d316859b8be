// Looks after a migration of a mounted volume: has its blocks copied, ends it when every block has
// moved, and has the volume opened again if its beginning was cut short.
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

/// Why a migration does not end although every block has moved.
struct EndOfMigration {
  std::string failure;  // in words, with what to do; empty if no end has failed
  bool is_retried = true;
};

/// A thread that looks every second. Both must outlive it. The files are mounted.
class MigrationWatch {
 public:
  static Result<std::unique_ptr<MigrationWatch>> start(Volume& volume, FileSystem& files);
  MigrationWatch(const MigrationWatch&) = delete;
  MigrationWatch& operator=(const MigrationWatch&) = delete;
  /// Waits for a look that is under way.
  ~MigrationWatch();
  /// Uses the files no more, which are about to be closed: only opens the volume, which they may
  /// still need. Waits until a backup of the names has ended early.
  void leave_files();
  /// What became of the last end that was tried. Any thread.
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
  bool begun_ = false;            // that a migration is under way is in the log
  mutable std::mutex end_mutex_;  // guards end_
  EndOfMigration end_;
  std::chrono::steady_clock::time_point next_end_;  // an end is not tried before
  std::chrono::seconds pause_{0};                   // after the next failure
  std::mutex files_mutex_;                          // held while the files are used
  bool may_use_files_ = true;
  std::mutex mutex_;  // guards stopping_
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace s3oram
