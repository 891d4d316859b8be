// A vault's directory in the making. Unless it is kept, it ends as it was found: missing or empty.
// It holds the file `unfinished` until there is a vault.json, by which the next attempt after a
// crash knows that it may clear the rest away.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

namespace s3oram {

class VaultDraft {
 public:
  /// Checks that start() could begin: there is nothing, or an empty directory, or the rest of a
  /// vault that was never finished. Errors: exists, usage (for root: it is somebody else's).
  static Status check(const std::filesystem::path& directory);
  /// Makes the directory if it is missing, and makes it private. Errors: exists, vault_in_use
  /// (another process is making it), ...
  static Result<VaultDraft> start(const std::filesystem::path& directory);
  VaultDraft(VaultDraft&& other) noexcept;
  VaultDraft& operator=(VaultDraft&&) = delete;
  ~VaultDraft();

  /// Keeps the directory: it is a vault from now on.
  void keep() { active_ = false; }
  /// Removes the mark. To be called once there is a vault.json.
  static void forget_mark(const std::filesystem::path& directory);

 private:
  explicit VaultDraft(std::filesystem::path directory) : directory_(std::move(directory)) {}
  Status mark();

  std::filesystem::path directory_;
  Descriptor mark_;  // locked
  bool made_ = false;
  mode_t former_mode_ = 0;
  bool active_ = false;
};

}  // namespace s3oram
