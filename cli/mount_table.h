// Finds the mount that somebody means.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "oramcore/base/error.h"
#include "oramcore/base/mountinfo.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// The newest mount that `name`, a mount point or a vault, stands for, and where its vault is now:
/// it may have been moved. Works for a mount point whose daemon is dead. Errors: not_mounted,
/// vault_in_use (its daemon goes on, but the mount is not to be seen by this process).
Result<VaultMount> find_mount(const std::filesystem::path& name);

/// The newest mount that `name` stands for by the kernel's list alone. A mount that names the vault
/// counts only if it is of the user whose directory that is: anyone may mount something that says
/// that it is this vault.
std::optional<VaultMount> listed_mount(const std::filesystem::path& name);

/// The vault that `name` is, or that is mounted there. Errors: those of Vault::find.
Result<Vault> find_vault(const std::filesystem::path& name);

}  // namespace s3oram
