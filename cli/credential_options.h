// What opens a vault, from the options that init and its like have in common.
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

  /// Adds --passfile, --passprog and --keyfile, of which at most one may be given: what opens a
  /// vault that exists. If none is given, the first of the variables S3ORAMFS_PASSFILE,
  /// S3ORAMFS_PASSPROG and S3ORAMFS_KEYFILE that is set counts, and then set_default().
  void add_to(CLI::App& app);
  /// Adds --PREFIXpassfile and so on, and --no-passphrase, for what is to open the vault.
  void add_new_to(CLI::App& app, const std::string& prefix);

  /// What opens the vault if neither an option nor a variable says it.
  void set_default(PassphraseSource passphrase, std::filesystem::path file);

  /// For root, before it becomes the vault's owner: reads what the options name.
  Status read_early();
  /// Reads early what is to open the vault. A key file that does not exist yet is made later, by an
  /// errand.
  Status prepare_new();

 private:
  void settle();
  CLI::Option* add(CLI::App& app, const std::string& prefix, const std::string& group);
  PassphraseSource default_source_;
  std::filesystem::path default_keyfile_;
};

/// The credential of an existing vault: asks once if it wants a passphrase and no option says more.
Result<Credential> existing_credential(const CredentialOptions& options, const Vault& vault);

/// Opens an existing vault: calls `open` with its credential. A person who types a wrong passphrase
/// is asked again, three times in all.
Status open_with_credential(const CredentialOptions& options, const Vault& vault,
                            const std::function<Status(const Credential&)>& open);

/// What opens a vault, and what it opened.
struct OpenedVault {
  Credential credential;
  VaultKeys keys;
};
/// Unlocks the vault in this way.
Result<OpenedVault> unlock_vault(const CredentialOptions& options, const Vault& vault);

/// A new credential: asks twice, or makes a key file that does not exist.
class NewCredential {
 public:
  static Result<NewCredential> make(CredentialOptions& options);
  /// One that exists; there is nothing to undo.
  explicit NewCredential(const Credential& existing) : credential_(existing) {}
  const Credential& get() const { return credential_; }
  /// Removes the key file, if it was made here; for an init that failed.
  Status undo();

 private:
  NewCredential() = default;
  Status make_key(CredentialOptions& options, const std::filesystem::path& keyfile);
  Credential credential_;
  bool made_keyfile_ = false;
  Errand remove_keyfile_;  // if only root can
};

}  // namespace s3oram
