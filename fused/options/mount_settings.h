// Mounts that a user has given names: files of settings in ~/.config/s3oramfs, such as
//   vault = "~/private.vault"
//   directory = "~/private"
//   options = "noatime,idle=10m"
// The options of `s3oramfs mount` that take a value may be set too, by their names.
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
  std::string vault, directory;      // absolute; `directory` may be empty
  std::vector<std::string> options;  // options for `s3oramfs mount`
  PassphraseSource passphrase;       // which option opens the vault
  std::filesystem::path keyfile;
};

/// Returns the folder of these files: s3oramfs in $XDG_CONFIG_HOME, or in ~/.config.
std::filesystem::path settings_folder();

/// Returns the names of all such mounts, in alphabetical order.
std::vector<std::string> mount_names();

/// Returns the settings of the mount called `name`; std::nullopt if it has no file, or if `name` is
/// not a valid name (it must not contain a slash, begin with a dot or end in .env). Errors: usage
/// (a mistake, with its file and line; or other users may change the file, although it can contain
/// commands to run).
Result<std::optional<MountSettings>> find_mount_settings(const std::string& name);

}  // namespace s3oram
