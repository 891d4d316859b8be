// For commands that root may run on another user's vault.
#pragma once

#include <filesystem>
#include <functional>

#include "oramcore/base/error.h"

namespace s3oram {

enum class VaultUse {
  files,    // reads or changes files of the vault
  unmount,  // ends a mount, which must be possible even if the vault is broken
};

/// Makes a process of root permanently become the owner of the vault that `name` is, or that is
/// mounted there. Call it before anything in the vault is read. If root's rights are about to be
/// given up, first calls `before`, still as root, which reads what only root may read and prepares
/// errands. Does nothing if there is no vault, and for other users. Errors: those of VaultPlace and
/// of `before`.
Status become_owner(const std::filesystem::path& name,
                    const std::function<Status()>& before = nullptr,
                    VaultUse use = VaultUse::files);

/// Checks, before root writes files of its own in `directory`, that no other user can change what
/// their names refer to. Succeeds if there is no such directory. Errors: usage (says to whom it
/// belongs), failed.
Status require_own_directory(const std::filesystem::path& directory);

}  // namespace s3oram
