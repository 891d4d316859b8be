// The place of a benchmark: a new subdirectory of the measured directory. It is removed at the end,
// even if the program is interrupted or told to end.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "oramcore/base/error.h"
#include "oramcore/base/mountinfo.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// While it lives, SIGINT, SIGTERM, SIGHUP and SIGPIPE make interrupted() return true. Only one may
/// exist at a time.
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
  /// Creates a place in `target`, a directory or a mounted vault. Errors: not_mounted, usage (not a
  /// directory), disk_full (less room than `bytes` and a reserve), failed.
  static Result<std::unique_ptr<BenchPlace>> make(const std::string& target, std::uint64_t bytes);
  /// Removes the subdirectory and everything in it.
  ~BenchPlace();
  BenchPlace(const BenchPlace&) = delete;
  BenchPlace& operator=(const BenchPlace&) = delete;

  const std::filesystem::path& directory() const { return directory_; }
  /// Returns the kernel's name of the file system: "ext4", "fuse.s3oramfs" ...
  const std::string& filesystem() const { return filesystem_; }
  /// Returns whether a daemon keeps contents in memory that forget() cannot reach, because the
  /// vault belongs to another user.
  bool keeps_memory() const { return filesystem_ == kVaultMountType && !vault_; }

  /// Drops the durable content of this file from the memory of the kernel and of a vault's daemon,
  /// as far as they allow it. (Caches below another file system stay.)
  Status forget(int file) const;

 private:
  BenchPlace() = default;
  std::filesystem::path directory_;
  std::string filesystem_;
  std::optional<Vault> vault_;  // if the directory is in a mounted vault
};

/// Returns the type of the file system with this device number (as in st_dev). `mountinfo` is a
/// text in the format of /proc/self/mountinfo. Returns an empty string if it does not list the
/// device.
std::string type_of_device(const std::string& mountinfo, unsigned major, unsigned minor);

}  // namespace s3oram
