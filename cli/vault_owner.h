// For commands that root may run on somebody else's vault.
#pragma once

#include <filesystem>
#include <functional>

#include "oramcore/base/error.h"

namespace s3oram {

enum class VaultUse {
  files,    // reads or changes files of the vault
  unmount,  // ends a mount, which must be possible whatever the vault looks like
};

/// Has root become, for good, the owner of the vault that `name` is, or that is mounted there. It
/// comes before anything of the vault is read. As root, and only if its rights are about to be
/// given up, `before` is run: it reads what is for root alone, and prepares errands. Does nothing
/// where there is no vault, and for other users. Errors: those of VaultPlace and of `before`.
Status become_owner(const std::filesystem::path& name,
                    const std::function<Status()>& before = nullptr,
                    VaultUse use = VaultUse::files);

/// For root, before it writes files of its own in `directory`: nobody else may have a hand in what
/// their names come to mean. Where there is no directory it succeeds. Errors: usage (says whose it
/// is), failed.
Status require_own_directory(const std::filesystem::path& directory);

}  // namespace s3oram
