// Directories that nobody but the vault's owner may look into.
#pragma once

#include <filesystem>

#include "oramcore/base/error.h"

namespace s3oram {

/// Makes a directory with mode 0700. Succeeds if it exists. Errors name it.
Status make_private_directory(const std::filesystem::path& path);

}  // namespace s3oram
