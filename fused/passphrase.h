// Where a passphrase comes from.
#pragma once

#include <filesystem>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// The first line of `file`; without one, of the credential "s3oramfs.passphrase" if the service
/// manager has passed one (CREDENTIALS_DIRECTORY); else what the user types on the terminal,
/// unseen.
Result<std::string> read_passphrase(const std::filesystem::path& file, const std::string& prompt);

}  // namespace s3oram
