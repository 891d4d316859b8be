// Where a passphrase comes from: the same for every program.
#pragma once

#include <filesystem>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// The first that is given counts. Without any, read_passphrase() takes what systemd hands to the
/// service (LoadCredential=s3oramfs.passphrase:...), and else asks on the terminal.
struct PassphraseSource {
  std::filesystem::path passfile;  // its first line
  std::string passprog;            // the first line that this command of the shell writes
  std::string prefix = "";         // of a new one's options, as in --new-passfile
  bool given() const { return !passfile.empty() || !passprog.empty(); }
};

/// The file below $CREDENTIALS_DIRECTORY.
inline constexpr const char* kPassphraseCredential = "s3oramfs.passphrase";

/// Whether systemd hands one to us.
bool has_manager_passphrase();

/// The passphrase of something that exists. Never empty. `prompt` is what a terminal shows. Errors
/// name the source and what to do: usage, failed.
Result<std::string> read_passphrase(const PassphraseSource& source, const std::string& prompt);

/// A new one: a terminal asks for it twice, and systemd's is not used.
Result<std::string> read_new_passphrase(const PassphraseSource& source);

/// What to tell the user if others than its owner may read or change the secret `file`, with the
/// command that ends it; empty if all is well, or if it is no file.
std::string exposure_of(const std::filesystem::path& file);

}  // namespace s3oram
