// Reads the passphrase or key that opens a vault from where the options say.
#include "cli/credential_options.h"

#include <sodium.h>

#include <cstdlib>
#include <iostream>

#include "oramcore/base/durable_file.h"
#include "oramcore/base/random.h"
#include "oramcore/vault/credential.h"
#include "oramcore/vault/passphrase_strength.h"

namespace s3oram {
namespace {

Credential of_passphrase(std::string text) {
  return Credential{Credential::Kind::passphrase, std::move(text), {}};
}

/// Returns the credential for a new passphrase, and prints a hint if it is weak.
Credential of_new_passphrase(std::string text) {
  if (const std::string weakness = weakness_of(text); !weakness.empty())
    std::cerr << "s3oramfs: hint: " << weakness << "\n";
  return of_passphrase(std::move(text));
}

Status remove_key_file(const std::filesystem::path& file) {
  std::error_code error;
  std::filesystem::remove(file, error);
  return error ? Status(fail(Errc::failed, "{}: {}", file.string(), error.message())) : Status();
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
  auto* prog = option("passprog", source.passprog, "The passphrase: output of COMMAND", "COMMAND");
  auto* key = option("keyfile", keyfile, "A file instead of a passphrase", "FILE");
  prog->excludes(pass);
  key->excludes(pass)->excludes(prog);
  if (prefix.empty()) app.final_callback([this] { settle(); });
  return key;
}

void CredentialOptions::set_default(PassphraseSource passphrase, std::filesystem::path file) {
  default_source_ = std::move(passphrase);
  default_keyfile_ = std::move(file);
}

/// Uses the variables and the default if the command line says nothing.
void CredentialOptions::settle() {
  const auto is_said = [&] { return source.given() || !keyfile.empty() || no_passphrase; };
  if (is_said()) return;
  const auto take = [](const char* name, auto& target) {
    const char* value = std::getenv(name);
    if (value && *value) target = value;
    return value && *value;
  };
  if (take("S3ORAMFS_PASSFILE", source.passfile) || take("S3ORAMFS_PASSPROG", source.passprog) ||
      take("S3ORAMFS_KEYFILE", keyfile))
    return;
  source.passfile = default_source_.passfile;
  source.passprog = default_source_.passprog;
  keyfile = default_keyfile_;
}

void CredentialOptions::add_to(CLI::App& app) {
  add(app, "", "Passphrase or key file of the vault (default: asks for a passphrase)");
}

void CredentialOptions::add_new_to(CLI::App& app, const std::string& prefix) {
  const std::string group = "New passphrase or key file (default: asks for a passphrase)";
  source.prefix = prefix;
  auto* key = add(app, prefix, group);
  key->description("A file instead of a passphrase; created if missing");
  app.add_flag("--no-passphrase", no_passphrase, "Store the key unprotected in the vault")
      ->group(group)
      ->excludes(key)
      ->excludes(app.get_option("--" + prefix + "passfile"))
      ->excludes(app.get_option("--" + prefix + "passprog"));
}

Result<Credential> existing_credential(const CredentialOptions& options, const Vault& vault) {
  warn_if_exposed(options.source.passfile);
  warn_if_exposed(options.keyfile);
  // An unprotected vault needs no credential, so nobody is asked for one.
  if (options.no_passphrase) return Credential{};
  return existing_credential(options.source, options.keyfile, vault, options.early);
}

Status open_with_credential(const CredentialOptions& options, const Vault& vault,
                            const std::function<Status(const Credential&)>& open) {
  for (unsigned left = credential_tries(options.source, options.keyfile, vault, options.early);;) {
    S3O_ASSIGN(const auto credential, existing_credential(options, vault));
    Status opened = open(credential);
    if (opened || opened.error().code != Errc::wrong_passphrase || --left == 0) return opened;
    std::cerr << "s3oramfs: wrong passphrase, try again\n";
  }
}

Result<OpenedVault> unlock_vault(const CredentialOptions& options, const Vault& vault) {
  std::optional<OpenedVault> opened;
  S3O_TRY(open_with_credential(options, vault, [&](const Credential& credential) -> Status {
    S3O_ASSIGN(const auto keys, vault.unlock(credential));
    opened.emplace(OpenedVault{credential, keys});
    return {};
  }));
  return std::move(*opened);
}

Status CredentialOptions::read_early() {
  S3O_ASSIGN(auto secret, s3oram::read_early(source, keyfile));
  early = std::move(secret);
  return {};
}

Status CredentialOptions::prepare_new() {
  std::error_code error;
  if (keyfile.empty() && !source.given()) return {};  // ask later, or no passphrase
  if (keyfile.empty()) {
    S3O_ASSIGN(auto text, read_new_passphrase(source));
    early.passphrase = std::move(text);
    return {};
  }
  const auto path = std::filesystem::absolute(keyfile, error);
  if (error) return fail(Errc::failed, "{}: {}", keyfile.string(), error.message());
  if (std::filesystem::exists(path, error)) {
    S3O_ASSIGN(auto content, read_key_content(path));
    early.key = std::move(content);
    return {};
  }
  auto make = Errand::prepare([path](ByteSpan content, std::vector<Descriptor>&) {
    return create_durably(path, content, FileOwner::of_former);
  });
  if (!make) return fail(std::move(make).error());
  auto remove =
      Errand::prepare([path](ByteSpan, std::vector<Descriptor>&) { return remove_key_file(path); });
  if (!remove) return fail(std::move(remove).error());
  make_keyfile = std::move(*make);
  remove_keyfile = std::move(*remove);
  return {};
}

Status NewCredential::make_key(CredentialOptions& options, const std::filesystem::path& keyfile) {
  Seed secret = SystemRandom().seed();
  Status written;
  if (options.make_keyfile.is_prepared()) {
    if (auto made = options.make_keyfile.run(secret); !made) written = fail(made.error());
    credential_.content.assign(secret.begin(), secret.end());
    remove_keyfile_ = std::move(options.remove_keyfile);
  } else {
    written = write_durably(keyfile, secret);
  }
  sodium_memzero(secret.data(), secret.size());
  made_keyfile_ = written.has_value();
  return written;
}

Result<NewCredential> NewCredential::make(CredentialOptions& options) {
  NewCredential made;
  if (!options.keyfile.empty()) {
    std::error_code error;
    const auto keyfile = std::filesystem::absolute(options.keyfile, error);
    if (error) return fail(Errc::failed, "{}: {}", options.keyfile.string(), error.message());
    const bool is_there = options.early.key || (!options.make_keyfile.is_prepared() &&
                                                std::filesystem::exists(keyfile, error));
    if (!is_there) S3O_TRY(made.make_key(options, keyfile));
    if (options.early.key) made.credential_.content = *options.early.key;
    warn_if_exposed(keyfile);
    made.credential_.keyfile = keyfile;
    return made;
  }
  if (options.no_passphrase) return made;
  if (options.early.passphrase) {
    made.credential_ = of_new_passphrase(*options.early.passphrase);
    return made;
  }
  warn_if_exposed(options.source.passfile);
  S3O_ASSIGN(auto text, read_new_passphrase(options.source));
  made.credential_ = of_new_passphrase(std::move(text));
  return made;
}

Status NewCredential::undo() {
  if (!made_keyfile_) return {};
  if (!remove_keyfile_.is_prepared()) return remove_key_file(credential_.keyfile);
  if (auto removed = remove_keyfile_.run(); !removed) return fail(removed.error());
  return {};
}

}  // namespace s3oram
