// Reads the secrets that open a vault. They are read late, so that users are not asked in vain;
// only root reads them early (EarlySecret).
#include "oramcore/vault/credential.h"

#include <sodium.h>

namespace s3oram {

EarlySecret::~EarlySecret() {
  if (passphrase) sodium_memzero(passphrase->data(), passphrase->size());
  if (key) sodium_memzero(key->data(), key->size());
}

Result<EarlySecret> read_early(const PassphraseSource& source,
                               const std::filesystem::path& keyfile) {
  EarlySecret early;
  if (!keyfile.empty()) {
    S3O_ASSIGN(auto content, read_key_content(keyfile));
    early.key = std::move(content);
  } else if (source.given() || has_manager_passphrase()) {
    S3O_ASSIGN(auto text, read_passphrase(source, ""));
    early.passphrase = std::move(text);
  }
  return early;
}

Result<Credential> existing_credential(const PassphraseSource& source,
                                       const std::filesystem::path& keyfile, const Vault& vault,
                                       const EarlySecret& early) {
  S3O_ASSIGN(auto wants_passphrase, vault.wants_passphrase());
  if (!source.given() && (!wants_passphrase || !keyfile.empty())) {
    Result<Bytes> content;
    if (early.key)
      content = *early.key;
    else if (!keyfile.empty())
      content = read_key_content(keyfile);
    if (!content) return fail(std::move(content).error());
    return Credential{Credential::Kind::key_file, {}, keyfile, std::move(*content)};
  }
  S3O_ASSIGN(auto text, early.passphrase
                            ? Result<std::string>(*early.passphrase)
                            : read_passphrase(source, fmt::format("Passphrase of {}: ",
                                                                  vault.directory().string())));
  return Credential{Credential::Kind::passphrase, std::move(text), {}};
}

unsigned credential_tries(const PassphraseSource& source, const std::filesystem::path& keyfile,
                          const Vault& vault, const EarlySecret& early) {
  constexpr unsigned kTries = 3;
  const bool elsewhere =
      source.given() || !keyfile.empty() || early.passphrase || has_manager_passphrase();
  const auto wants_passphrase = vault.wants_passphrase();
  return !elsewhere && wants_passphrase && *wants_passphrase ? kTries : 1;
}

}  // namespace s3oram
