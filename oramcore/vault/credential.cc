#include "oramcore/vault/credential.h"

namespace s3oram {

Result<Credential> existing_credential(const PassphraseSource& source,
                                       const std::filesystem::path& keyfile, const Vault& vault) {
  auto wants_passphrase = vault.wants_passphrase();
  if (!wants_passphrase) return fail(std::move(wants_passphrase).error());
  if (!source.given() && (!*wants_passphrase || !keyfile.empty())) {
    Result<Bytes> content;
    if (!keyfile.empty()) content = read_key_content(keyfile);
    if (!content) return fail(std::move(content).error());
    return Credential{Credential::Kind::key_file, {}, keyfile, std::move(*content)};
  }
  auto text =
      read_passphrase(source, fmt::format("Passphrase of {}: ", vault.directory().string()));
  if (!text) return fail(std::move(text).error());
  return Credential{Credential::Kind::passphrase, std::move(*text), {}};
}

}  // namespace s3oram
