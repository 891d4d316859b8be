// What opens a vault that exists.
#pragma once

#include <filesystem>

#include "oramcore/vault/passphrase.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// By `keyfile`, or by a passphrase from `source`. If neither is given: by a passphrase, if the
/// vault wants one (see read_passphrase), else by the vault alone. Errors: those of
/// read_passphrase() and Vault::wants_passphrase().
Result<Credential> existing_credential(const PassphraseSource& source,
                                       const std::filesystem::path& keyfile, const Vault& vault);

}  // namespace s3oram
