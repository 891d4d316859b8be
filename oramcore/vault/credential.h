// Gets the credential that opens an existing vault.
#pragma once

#include <filesystem>
#include <optional>

#include "oramcore/vault/passphrase.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// A secret that root read, because only root may be able to, before it became the vault's owner.
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

/// Reads what `source` or `keyfile` names, or else what the service manager hands to us. Asks
/// nobody. Errors: those of read_passphrase() and read_key_content().
Result<EarlySecret> read_early(const PassphraseSource& source,
                               const std::filesystem::path& keyfile);

/// Returns the credential made from `keyfile` or from a passphrase of `source`, reading what was
/// not read early. If neither is given, takes a passphrase (read_passphrase()) if the vault wants
/// one, and otherwise the vault's own plain key. Errors: those of read_passphrase() and
/// Vault::wants_passphrase().
Result<Credential> existing_credential(const PassphraseSource& source,
                                       const std::filesystem::path& keyfile, const Vault& vault,
                                       const EarlySecret& early = {});

/// Returns how often existing_credential() may be called if what it returns does not open the
/// vault: three times if a person types a passphrase, and once otherwise.
unsigned credential_tries(const PassphraseSource& source, const std::filesystem::path& keyfile,
                          const Vault& vault, const EarlySecret& early);

}  // namespace s3oram
