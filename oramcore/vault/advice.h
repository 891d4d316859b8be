// Advice for errors about damaged vault files.
#pragma once

#include <filesystem>
#include <string>

#include "oramcore/base/error.h"
#include "oramcore/base/party.h"
#include "oramcore/protocol/params.h"

namespace s3oram {

/// Returns the error about vault.json or vault.key, with advice added if it is damaged_vault.
Error advise_on_keys(Error error, const std::filesystem::path& vault);
/// Returns the error about vault.db, with advice added if it is damaged_vault.
Error advise_on_database(Error error, const std::filesystem::path& vault);

/// Returns what to do when the store of a local vault's server is gone.
std::string advice_on_store(const VolumeParams& params, Party server,
                            const std::filesystem::path& vault);

}  // namespace s3oram
