// Finds the mount that the user means.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "oramcore/base/error.h"
#include "oramcore/base/mountinfo.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// Returns the newest mount that `name`, a mount point or a vault, stands for, with the current
/// path of its vault, which may have been moved. Also works for a mount point whose daemon is dead.
/// Errors: not_mounted, vault_in_use (its daemon still runs, but this process cannot see the
/// mount).
Result<VaultMount> find_mount(const std::filesystem::path& name);

/// Returns the newest mount that `name` stands for, only by the kernel's list. A mount that names
/// the vault counts only if it belongs to the owner of the vault's directory, because anyone may
/// mount something that claims to be this vault.
std::optional<VaultMount> listed_mount(const std::filesystem::path& name);

/// Returns the vault that `name` is, or that is mounted there. Errors: those of Vault::find().
Result<Vault> find_vault(const std::filesystem::path& name);

}  // namespace s3oram
