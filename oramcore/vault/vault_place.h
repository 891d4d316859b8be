// Finds a vault, and its owner. Root needs to know both, and to become the owner, before it reads
// anything in the vault. Other users use the path as they gave it.
#pragma once

#include <filesystem>
#include <optional>

#include "oramcore/base/error.h"
#include "oramcore/base/identity.h"

namespace s3oram {

class VaultPlace {
 public:
  /// Opens the directory once, and takes its owner from the open directory. Errors: not_a_vault
  /// (there is no such directory), failed (a link that root does not follow), unsupported (other
  /// users could put files of theirs into it, or replace it with another directory).
  static Result<VaultPlace> open(const std::filesystem::path& name);

  /// Returns the path: for root, absolute and without links; for others, as it was given.
  const std::filesystem::path& path() const { return path_; }
  /// Returns the user that root has to become (identity.h) before it reads anything in the vault;
  /// std::nullopt if this process keeps its user.
  const std::optional<User>& owner() const { return owner_; }

  /// Checks, if root opened the vault, that every file in it belongs to its owner and is a file, a
  /// directory, a link or a socket. Errors: unsupported (names the file), failed.
  Status check_files() const;

  /// Checks, for root, that nobody else can replace a directory on the way to `name`, so that root
  /// may make a vault there. Errors: usage (make it as the user who owns the directory).
  static Status check_new(const std::filesystem::path& name);

 private:
  VaultPlace() = default;
  std::filesystem::path path_;
  std::optional<User> owner_;
  std::optional<uid_t> all_files_;  // the user to whom all files must belong; any user if none
};

}  // namespace s3oram
