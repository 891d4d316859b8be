#include "cli/credential_options.h"

#include <sodium.h>

#include <iostream>

#include "oramcore/base/durable_file.h"
#include "oramcore/base/random.h"
#include "oramcore/vault/credential.h"

namespace s3oram {
namespace {

Credential of_passphrase(std::string text) {
  return Credential{Credential::Kind::passphrase, std::move(text), {}};
}

void warn_if_exposed(const std::filesystem::path& file) {
  if (const std::string exposure = exposure_of(file); !exposure.empty())
    std::cerr << "s3oramfs: warning: " << exposure << "\n";
}

}  // namespace

CLI::Option* CredentialOptions::add(CLI::App& app, const std::string& prefix,
                                    const std::string& group) {
  const auto option = [&](const char* name, auto& value, const char* what, const char* type) {
    return app.add_option("--" + prefix + name, value, what)->type_name(type)->group(group);
  };
  auto* pass = option("passfile", source.passfile, "The passphrase: the file's first line", "FILE");
  auto* prog = option("passprog", source.passprog, "The passphrase: what this writes", "COMMAND");
  auto* key = option("keyfile", keyfile, "A file instead of a passphrase", "FILE");
  prog->excludes(pass);
  key->excludes(pass)->excludes(prog);
  return key;
}

void CredentialOptions::add_to(CLI::App& app) {
  add(app, "", "What opens the vault (default: a passphrase that is asked for)");
}

void CredentialOptions::add_new_to(CLI::App& app, const std::string& prefix) {
  const std::string group = "What is to open the vault (default: a passphrase that is asked for)";
  source.prefix = prefix;
  auto* key = add(app, prefix, group);
  key->description("A file instead of a passphrase; made if missing");
  app.add_flag("--no-passphrase", no_passphrase, "Keep the key unprotected in the vault")
      ->group(group)
      ->excludes(key)
      ->excludes(app.get_option("--" + prefix + "passfile"))
      ->excludes(app.get_option("--" + prefix + "passprog"));
}

Result<Credential> existing_credential(const CredentialOptions& options, const Vault& vault) {
  warn_if_exposed(options.source.passfile);
  warn_if_exposed(options.keyfile);
  // An unprotected vault is resumed without asking.
  if (options.no_passphrase) return Credential{};
  return existing_credential(options.source, options.keyfile, vault);
}

Result<NewCredential> NewCredential::make(const CredentialOptions& options) {
  NewCredential made;
  if (!options.keyfile.empty()) {
    std::error_code error;
    const auto keyfile = std::filesystem::absolute(options.keyfile, error);
    if (error) return fail(Errc::failed, "{}: {}", options.keyfile.string(), error.message());
    if (!std::filesystem::exists(keyfile, error)) {
      Seed secret = SystemRandom().seed();
      const Status written = write_durably(keyfile, secret);
      sodium_memzero(secret.data(), secret.size());
      if (!written) return fail(written.error());
      made.made_keyfile_ = true;
    }
    warn_if_exposed(keyfile);
    made.credential_.keyfile = keyfile;
    return made;
  }
  if (options.no_passphrase) return made;
  warn_if_exposed(options.source.passfile);
  auto text = read_new_passphrase(options.source);
  if (!text) return fail(std::move(text).error());
  made.credential_ = of_passphrase(std::move(*text));
  return made;
}

Status NewCredential::undo() const {
  std::error_code error;
  if (made_keyfile_) std::filesystem::remove(credential_.keyfile, error);
  if (error) return fail(Errc::failed, "{}: {}", credential_.keyfile.string(), error.message());
  return {};
}

}  // namespace s3oram
