// Where a passphrase comes from, in all programs alike.
#pragma once

#include <filesystem>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// The first one given counts. Without any, read_passphrase() takes what systemd hands to the
/// service (LoadCredential=s3oramfs.passphrase:...), or else asks on the terminal.
struct PassphraseSource {
  std::filesystem::path passfile;  // its first line
  std::string passprog;            // a shell command, which writes it as its first line
  std::string prefix = "";         // of the options for a new one, as in --new-passfile
  bool given() const { return !passfile.empty() || !passprog.empty(); }
};

/// The file below $CREDENTIALS_DIRECTORY.
inline constexpr const char* kPassphraseCredential = "s3oramfs.passphrase";

/// Whether systemd hands a passphrase to this process.
bool has_manager_passphrase();

/// Reads the passphrase of something that exists. It is never empty. `prompt` is shown on the
/// terminal. Errors name the source and what to do: usage, failed.
Result<std::string> read_passphrase(const PassphraseSource& source, const std::string& prompt);

/// Reads a new passphrase: asks twice on a terminal, and does not take systemd's.
Result<std::string> read_new_passphrase(const PassphraseSource& source);

/// Returns a warning if others than its owner may read or change the secret `file`, with the
/// command that ends that. Empty if all is well, or if it is not a regular file.
std::string exposure_of(const std::filesystem::path& file);

}  // namespace s3oram
