// Where a vault is and whose: what root has to know, and do, before anything of it is read. For
// other users it is as they named it.
#pragma once

#include <filesystem>
#include <optional>

#include "oramcore/base/error.h"
#include "oramcore/base/identity.h"

namespace s3oram {

class VaultPlace {
 public:
  /// Opens the directory once, and takes from what was opened whose it is. Errors: not_a_vault
  /// (there is no such directory), failed (a link that root does not follow), unsupported: other
  /// users could put files of theirs into it, or another directory in its place.
  static Result<VaultPlace> open(const std::filesystem::path& name);

  /// For root: absolute, without links. Else as it was named.
  const std::filesystem::path& path() const { return path_; }
  /// The user that root has to become (identity.h) before anything of the vault is read; none if
  /// this process is to stay what it is.
  const std::optional<User>& owner() const { return owner_; }

  /// Root's, or as the vault's owner in root's place: every file in the vault must be its owner's,
  /// and a file, a directory, a link or a socket. Errors: unsupported (names it), failed.
  Status check_files() const;

  /// For root, that may make a vault at `name`: nobody else can exchange a directory on the way to
  /// it. Errors: usage (make it as the user whose directory it is).
  static Status check_new(const std::filesystem::path& name);

 private:
  VaultPlace() = default;
  std::filesystem::path path_;
  std::optional<User> owner_;
  std::optional<uid_t> all_files_;  // whose they must be
};

}  // namespace s3oram
