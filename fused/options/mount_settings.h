// Mounts that a user has given names: files of settings in ~/.config/s3oramfs, such as
//   vault = "~/private.vault"
//   directory = "~/private"
//   options = "noatime,idle=10m"
// Besides these there are the options of `s3oramfs mount` that have a value, by their names.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "oramcore/base/error.h"
#include "oramcore/vault/passphrase.h"

namespace s3oram {

struct MountSettings {
  std::filesystem::path file;
  std::string vault, directory;      // absolute; the directory may be empty
  std::vector<std::string> options;  // of `s3oramfs mount`
  PassphraseSource passphrase;       // what of the options opens the vault
  std::filesystem::path keyfile;
};

/// The folder of these files: s3oramfs in $XDG_CONFIG_HOME, or in ~/.config.
std::filesystem::path settings_folder();

/// Returns the names that there are, in alphabetical order.
std::vector<std::string> mount_names();

/// Returns the settings of the mount that is called `name`; std::nullopt if there is no such file,
/// or if it could be no name, which has no slash, no dot before it and no .env behind it. Errors:
/// usage (says the file and the line; or others may change the file, whose commands are run).
Result<std::optional<MountSettings>> find_mount_settings(const std::string& name);

}  // namespace s3oram
