// Where a benchmark works: a fresh subdirectory of the directory that is measured, which goes with
// it, also when the program is interrupted by a key or told to end.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "oramcore/base/error.h"
#include "oramcore/base/mountinfo.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Turns SIGINT, SIGTERM, SIGHUP and SIGPIPE into interrupted(), while it lives. One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
};
bool interrupted();

class BenchPlace {
 public:
  /// In `target`, which is a directory, or a vault that is mounted. Errors: not_mounted, usage (not
  /// a directory), disk_full (less free than `bytes` and some room to spare), failed.
  static Result<std::unique_ptr<BenchPlace>> make(const std::string& target, std::uint64_t bytes);
  /// Removes the subdirectory and everything in it.
  ~BenchPlace();
  BenchPlace(const BenchPlace&) = delete;
  BenchPlace& operator=(const BenchPlace&) = delete;

  const std::filesystem::path& directory() const { return directory_; }
  /// "ext4", "fuse.s3oramfs", ... as the kernel calls it.
  const std::string& filesystem() const { return filesystem_; }
  /// Whether a daemon keeps contents in memory that forget() cannot reach: another user's vault.
  bool keeps_memory() const { return filesystem_ == kVaultMountType && !vault_; }

  /// What was written to this file, and is durable, leaves memory as far as it can be told to: the
  /// kernel's, and that of a vault's daemon. (What lies under another file system stays.)
  Status forget(int file) const;

 private:
  BenchPlace() = default;
  std::filesystem::path directory_;
  std::string filesystem_;
  std::optional<Vault> vault_;  // if the directory is a mounted one
};

/// The type of the file system with this device number (as in st_dev), of a text in the format of
/// /proc/self/mountinfo; empty if it is not there.
std::string type_of_device(const std::string& mountinfo, unsigned major, unsigned minor);

}  // namespace s3oram
