#include "cli/credential.h"

#include <sodium.h>

#include <algorithm>

#include "cli/terminal.h"
#include "oramcore/base/random.h"
#include "oramcore/state/durable_file.h"

namespace s3oram {
namespace {

constexpr std::size_t kLongestPassphrase = 1024;

// The first line of the file, without its end.
Result<std::string> read_passfile(const std::filesystem::path& path) {
  auto content = read_small_file(path, 1 << 16);
  if (!content) return fail(std::move(content).error());
  const auto end = std::find_if(content->begin(), content->end(),
                                [](std::uint8_t c) { return c == '\n' || c == '\r'; });
  std::string line(content->begin(), end);
  sodium_memzero(content->data(), content->size());
  if (line.empty()) return fail(Errc::usage, "{}: its first line is empty", path.string());
  if (line.size() > kLongestPassphrase)
    return fail(Errc::usage, "{}: its first line is longer than {} bytes", path.string(),
                kLongestPassphrase);
  return line;
}

Result<Credential> passphrase(Result<std::string> text) {
  if (!text) return fail(std::move(text).error());
  if (text->empty()) return fail(Errc::usage, "an empty passphrase protects nothing");
  return Credential{Credential::Kind::passphrase, std::move(*text), {}};
}

}  // namespace

void CredentialOptions::add_to(CLI::App& app) {
  auto* pass = app.add_option("--passfile", passfile, "The passphrase: the file's first line")
                   ->type_name("FILE")
                   ->group("What opens the vault (default: a passphrase that is asked for)");
  auto* key =
      app.add_option("--keyfile", keyfile, "A file instead of a passphrase; made if missing")
          ->type_name("FILE")
          ->group(pass->get_group())
          ->excludes(pass);
  app.add_flag("--no-passphrase", no_passphrase, "Keep the key unprotected in the vault")
      ->group(pass->get_group())
      ->excludes(pass)
      ->excludes(key);
}

Result<Credential> existing_credential(const CredentialOptions& options, bool wants_passphrase) {
  if (!options.passfile.empty()) return passphrase(read_passfile(options.passfile));
  if (!options.keyfile.empty() || options.no_passphrase || !wants_passphrase)
    return Credential{Credential::Kind::key_file, {}, options.keyfile};
  return passphrase(ask_passphrase("Passphrase: "));
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
    made.credential_.keyfile = keyfile;
    return made;
  }
  if (options.no_passphrase) return made;
  if (!options.passfile.empty()) {
    auto credential = passphrase(read_passfile(options.passfile));
    if (!credential) return fail(std::move(credential).error());
    made.credential_ = std::move(*credential);
    return made;
  }
  auto first = passphrase(ask_passphrase("New passphrase: "));
  if (!first) return fail(std::move(first).error());
  auto again = ask_passphrase("The same again: ");
  if (!again) return fail(std::move(again).error());
  if (first->passphrase != *again) return fail(Errc::usage, "the two passphrases differ");
  made.credential_ = std::move(*first);
  return made;
}

Status NewCredential::undo() const {
  std::error_code error;
  if (made_keyfile_) std::filesystem::remove(credential_.keyfile, error);
  if (error) return fail(Errc::failed, "{}: {}", credential_.keyfile.string(), error.message());
  return {};
}

}  // namespace s3oram
