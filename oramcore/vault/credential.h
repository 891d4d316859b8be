// What opens a vault that exists.
#pragma once

#include <filesystem>
#include <optional>

#include "oramcore/vault/passphrase.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// What was read by root, who alone may be able to, before it became the vault's owner.
struct EarlySecret {
  EarlySecret() = default;
  EarlySecret(const EarlySecret&) = delete;
  EarlySecret& operator=(const EarlySecret&) = delete;
  EarlySecret(EarlySecret&&) = default;
  EarlySecret& operator=(EarlySecret&&) = default;
  ~EarlySecret();  // wipes it

  std::optional<std::string> passphrase;
  std::optional<Bytes> key;  // a key file's content
};

/// Reads what `source` or `keyfile` name, or else the service manager hands to us. Asks nobody.
/// Errors: those of read_passphrase() and read_key_content().
Result<EarlySecret> read_early(const PassphraseSource& source,
                               const std::filesystem::path& keyfile);

/// By `keyfile`, or by a passphrase from `source`, as far as they were not read early. If neither
/// is given: by a passphrase, if the vault wants one (see read_passphrase), else by the vault
/// alone. Errors: those of read_passphrase() and Vault::wants_passphrase().
Result<Credential> existing_credential(const PassphraseSource& source,
                                       const std::filesystem::path& keyfile, const Vault& vault,
                                       const EarlySecret& early = {});

}  // namespace s3oram
