// The directory of a vault that is being made. Unless it is kept, it is left as it was found:
// missing or empty. Until there is a vault.json it contains the file `unfinished`, from which the
// next attempt after a crash knows that it may delete the contents.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"

namespace s3oram {

class VaultDraft {
 public:
  /// Checks that start() could begin: there is nothing, or an empty directory, or the remains of a
  /// vault that was never finished. Errors: exists, usage (for root: it belongs to another user).
  static Status check(const std::filesystem::path& directory);
  /// Makes the directory if it is missing, and makes it private. Errors: exists, vault_in_use
  /// (another process is making the vault), ...
  static Result<VaultDraft> start(const std::filesystem::path& directory);
  VaultDraft(VaultDraft&& other) noexcept;
  VaultDraft& operator=(VaultDraft&&) = delete;
  ~VaultDraft();

  /// Keeps the directory, which is a vault from now on.
  void keep() { active_ = false; }
  /// Removes the mark. Call it once there is a vault.json.
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
