// Directories that nobody except the vault's owner may look into.
#pragma once

#include <filesystem>

#include "oramcore/base/error.h"

namespace s3oram {

/// Makes a directory with mode 0700. Succeeds if it exists. Errors contain its name.
Status make_private_directory(const std::filesystem::path& path);

}  // namespace s3oram
