// Obtains the credential that opens an existing vault.
#pragma once

#include <filesystem>
#include <optional>

#include "oramcore/vault/passphrase.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// A secret that root read, because perhaps only root may read it, before it became the vault's
/// owner.
struct EarlySecret {
  EarlySecret() = default;
  EarlySecret(const EarlySecret&) = delete;
  EarlySecret& operator=(const EarlySecret&) = delete;
  EarlySecret(EarlySecret&&) = default;
  EarlySecret& operator=(EarlySecret&&) = default;
  ~EarlySecret();  // wipes the secret

  std::optional<std::string> passphrase;
  std::optional<Bytes> key;  // a key file's content
};

/// Reads what `source` or `keyfile` names, or otherwise what the service manager passes to us.
/// Never asks the user. Errors: those of read_passphrase() and read_key_content().
Result<EarlySecret> read_early(const PassphraseSource& source,
                               const std::filesystem::path& keyfile);

/// Returns the credential made from `keyfile` or from a passphrase of `source`, reading what was
/// not read early. If neither is given, takes a passphrase (read_passphrase()) if the vault needs
/// one, and otherwise the vault's own plain key. Errors: those of read_passphrase() and
/// Vault::wants_passphrase().
Result<Credential> existing_credential(const PassphraseSource& source,
                                       const std::filesystem::path& keyfile, const Vault& vault,
                                       const EarlySecret& early = {});

/// Returns how often existing_credential() may be called if its result does not open the vault:
/// three times if a user types the passphrase, otherwise once.
unsigned credential_tries(const PassphraseSource& source, const std::filesystem::path& keyfile,
                          const Vault& vault, const EarlySecret& early);

}  // namespace s3oram
