// The options, common to several commands, for the passphrase or key file of a vault.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>

#include "oramcore/base/errand.h"
#include "oramcore/base/error.h"
#include "oramcore/vault/credential.h"
#include "oramcore/vault/passphrase.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

struct CredentialOptions {
  PassphraseSource source;
  std::filesystem::path keyfile;
  bool no_passphrase = false;
  EarlySecret early;
  Errand make_keyfile, remove_keyfile;

  /// Adds --passfile, --passprog and --keyfile, the credential of an existing vault. At most one
  /// may be given. If none is given, the first of the variables S3ORAMFS_PASSFILE,
  /// S3ORAMFS_PASSPROG and S3ORAMFS_KEYFILE that is set counts; if none is set, the default of
  /// set_default().
  void add_to(CLI::App& app);
  /// Adds --PREFIXpassfile and so on, and --no-passphrase, for the new credential of a vault.
  void add_new_to(CLI::App& app, const std::string& prefix);

  /// Sets the credential that is used if neither an option nor a variable gives one.
  void set_default(PassphraseSource passphrase, std::filesystem::path file);

  /// Reads the files that the options name. Root calls it before it becomes the vault's owner.
  Status read_early();
  /// Reads the new credential before root becomes the vault's owner. A key file that does not exist
  /// yet is created later, by an errand.
  Status prepare_new();

 private:
  void settle();
  CLI::Option* add(CLI::App& app, const std::string& prefix, const std::string& group);
  PassphraseSource default_source_;
  std::filesystem::path default_keyfile_;
};

/// Returns the credential of an existing vault. Asks once if the vault needs a passphrase and no
/// option gives it.
Result<Credential> existing_credential(const CredentialOptions& options, const Vault& vault);

/// Opens an existing vault by calling `open` with its credential. A user who types a wrong
/// passphrase is asked again, up to three times in all.
Status open_with_credential(const CredentialOptions& options, const Vault& vault,
                            const std::function<Status(const Credential&)>& open);

/// The credential that opened a vault, and the keys.
struct OpenedVault {
  Credential credential;
  VaultKeys keys;
};
/// Unlocks the vault as open_with_credential() does.
Result<OpenedVault> unlock_vault(const CredentialOptions& options, const Vault& vault);

/// A new credential: a passphrase that the user types twice, or a key file, which is created if it
/// is missing.
class NewCredential {
 public:
  static Result<NewCredential> make(CredentialOptions& options);
  /// Takes an existing credential, so that there is nothing to undo.
  explicit NewCredential(const Credential& existing) : credential_(existing) {}
  const Credential& get() const { return credential_; }
  /// Removes the key file if it was created here. Called when init has failed.
  Status undo();

 private:
  NewCredential() = default;
  Status make_key(CredentialOptions& options, const std::filesystem::path& keyfile);
  Credential credential_;
  bool made_keyfile_ = false;
  Errand remove_keyfile_;  // if only root can
};

}  // namespace s3oram
