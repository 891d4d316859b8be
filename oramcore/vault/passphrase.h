// Reads passphrases, from the same sources in all programs.
#pragma once

#include <filesystem>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// The first source given counts. If there is none, read_passphrase() takes the passphrase that
/// systemd passes to the service (LoadCredential=s3oramfs.passphrase:...), or asks on the terminal.
struct PassphraseSource {
  std::filesystem::path passfile;  // its first line
  std::string passprog;            // a shell command that writes it as its first line
  std::string prefix = "";         // begins the options for a new passphrase, as in --new-passfile
  bool given() const { return !passfile.empty() || !passprog.empty(); }
};

/// The name of the file below $CREDENTIALS_DIRECTORY.
inline constexpr const char* kPassphraseCredential = "s3oramfs.passphrase";

/// Returns whether systemd passes a passphrase to this process.
bool has_manager_passphrase();

/// Reads the passphrase of something that exists. It is never empty. `prompt` is shown on the
/// terminal. Errors: usage, failed; the message names the source and what to do.
Result<std::string> read_passphrase(const PassphraseSource& source, const std::string& prompt);

/// Reads a new passphrase: asks twice on a terminal, and does not use the one from systemd.
Result<std::string> read_new_passphrase(const PassphraseSource& source);

/// Returns a warning if users other than its owner may read or change the secret `file`, with the
/// command that fixes that; empty if they may not, or if it is not a regular file.
std::string exposure_of(const std::filesystem::path& file);

}  // namespace s3oram
