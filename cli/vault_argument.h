// Takes a vault as an argument: a path, the directory where it is mounted, or the name of a mount.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/credential_options.h"
#include "fused/options/mount_settings.h"

namespace s3oram {

constexpr const char* kVaultVariable = "S3ORAMFS_VAULT";

/// Returns the variable's value; empty if it is not set.
std::string variable_of(const char* name);

/// Returns the settings if `text` is a name and not a path: a path contains a slash, or exists. If
/// both exist, takes the path and says so, unless the path is the vault or the directory of that
/// same name. Errors: those of find_mount_settings().
Result<std::optional<MountSettings>> named_mount(const std::string& text);

/// Turns a name into the path of its vault; leaves a path as it is. The credential in the name's
/// file becomes the default of `credential`, unless that is null.
CLI::Validator by_name(CredentialOptions* credential = nullptr);

/// Adds the vault as the only positional argument of a command. If it is not given, the variable
/// S3ORAMFS_VAULT counts.
template <class Target>
CLI::Option* add_vault(CLI::App& app, const std::string& label, Target& target,
                       const std::string& what, CredentialOptions* credential = nullptr) {
  return app.add_option(label, target, what)
      ->envname(kVaultVariable)
      ->required()
      ->transform(by_name(credential));
}

}  // namespace s3oram
