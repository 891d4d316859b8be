// What helps when files of a vault are damaged.
#pragma once

#include <filesystem>

#include "oramcore/base/error.h"

namespace s3oram {

/// An error of vault.json or vault.key, with what helps if it is damaged_vault.
Error advise_on_keys(Error error, const std::filesystem::path& vault);
/// The same of vault.db.
Error advise_on_database(Error error, const std::filesystem::path& vault);

}  // namespace s3oram
