// The vault: a directory (0700) on the client with
//   vault.json   what is not secret: format, volume, servers
//   vault.key    the master key, wrapped for each credential that opens it (key_file.h), 0600
//   vault.db     SQLite: positions, versions, sessions (oramcore), names and extents (fused)
//   lock         locked while a process has the vault open
//   run/         sockets of a mounted vault
//   servers/N/   with --local: the store of server N
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "oramcore/base/curve_keys.h"
#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"
#include "oramcore/base/party.h"
#include "oramcore/base/random.h"
#include "oramcore/protocol/params.h"
#include "oramcore/vault/key_file.h"

namespace s3oram {

/// The secrets of an open vault; wiped on destruction.
struct VaultKeys {
  Seed sealing{};  // AEAD key of the blocks
  Seed pages{};    // of vault.db (db/page_seal.h)
  KeyPair curve;   // this client's key towards the servers
  ~VaultKeys();
};

struct ServerAddress {
  std::string host_port;  // "host:port"; empty in a local vault
  PublicKey key{};
  friend bool operator==(const ServerAddress&, const ServerAddress&) = default;
};

/// The contents of vault.json.
struct VaultConfig {
  VolumeId volume{};
  VolumeParams params;
  bool local = false;
  std::vector<ServerAddress> servers;  // l of them; server i is servers[i - 1]
  // Whether the servers have the volume. If not, init did not finish (servers refused the new
  // key): it can be run again, and the vault cannot be mounted.
  bool ready = false;
  // Whether vault.db is sealed, or about to be. A program that knows no seals refuses such a vault.
  bool sealed = true;
};

enum class ClientKey { in_use, next };

class Vault {
 public:
  /// Makes the directory and its files (not the database). Nothing is left behind on an error.
  /// Errors: exists (the directory holds something).
  static Result<Vault> create(const std::filesystem::path& directory, const VaultConfig& config,
                              const Credential& credential, Random& random,
                              const KdfLimits& limits = {});
  /// Reads vault.json; needs no credential. Errors: not_a_vault, damaged_vault, unsupported; for
  /// root also failed: the vault is another user's, whom this process has to become before
  /// (VaultPlace).
  static Result<Vault> find(const std::filesystem::path& directory);

  /// What is needed to have this vault again when the directory is lost, but for the names of its
  /// files, which its servers keep (Volume::rebuild): a text that opens what the vault opens by the
  /// same credentials. Errors: usage (a local vault: its servers are lost with it), damaged_vault.
  Result<std::string> recovery() const;
  /// Makes the directory of such a text; `source` names it in messages. Nothing is left behind on
  /// an error. What an earlier call made is found. Where vault.db is there already, puts back the
  /// one or two of vault.json and vault.key that are gone, damaged or edited; what was there of
  /// them is kept, with ".damaged" behind its name, and the vault is locked. Errors: exists
  /// (something else, or both are sound), damaged_vault, unsupported, vault_in_use.
  struct Recovered;
  static Result<Recovered> recover(const std::filesystem::path& directory, const std::string& text,
                                   const std::filesystem::path& source);

  /// Locks the vault for this process until the Vault dies. Errors: vault_in_use.
  Status lock();
  /// The same, after whoever is about to leave it: a daemon still writes for a while when it is
  /// unmounted, and one that was killed takes a moment to end. `waiting` is called now and then
  /// meanwhile. Errors: vault_in_use (where it is mounted, or not left within 20 s).
  Status lock_when_left(const std::function<void()>& waiting);
  /// Whether a process has locked the vault in `directory`; false if there is none. Changes nothing
  /// there. Errors: failed (it may not be looked at).
  static Result<bool> is_in_use(const std::filesystem::path& directory);
  /// With `next`, the client's key is the one that next_client_key() made. Errors:
  /// wrong_passphrase, damaged_vault.
  Result<VaultKeys> unlock(const Credential& credential, ClientKey which = ClientKey::in_use) const;
  /// Whether a passphrase opens it (rather than a key file, or nothing); needs no credential.
  /// Errors: damaged_vault.
  Result<bool> wants_passphrase() const;
  /// Whether vault.key is there, private and whole; needs no credential. Errors: damaged_vault.
  Status check_key() const;

  /// Errors: failed (init did not finish, as VaultConfig::ready says).
  Status require_ready() const;

  const std::filesystem::path& directory() const { return directory_; }
  const VaultConfig& config() const { return config_; }
  std::filesystem::path database() const { return directory_ / "vault.db"; }
  std::filesystem::path run_directory() const { return directory_ / "run"; }
  std::filesystem::path store(Party server) const;
  /// Of a local vault: a store, empty, that is gone.
  Status make_store(Party server) const;

  /// Records durably that the servers have the volume.
  Status mark_ready();
  /// Records durably that vault.db is sealed, before it is. Does nothing if that is recorded.
  Status mark_sealed();

  // What opens the vault, and this client's key (vault_keys.cc). The vault need not be locked: it
  // may be mounted meanwhile, which sees nothing of it until it is mounted anew. Each change is
  // durable when it returns, and whole at any instant: what opened the vault before opens it until
  // what opens it afterwards does. Two changes at a time wait for each other. `known` opens the
  // vault already; errors: wrong_passphrase, damaged_vault, disk_full, usage.

  /// What a slot of vault.key is opened by.
  struct Slot {
    unsigned number = 0;
    KeyWrap wrap;
  };
  Result<std::vector<Slot>> slots() const;
  /// Replaces the credential of the slot that `known` opens; gives its number.
  Result<unsigned> change_credential(const Credential& known, const Credential& fresh,
                                     Random& random, const KdfLimits& limits = {});
  /// Lets `fresh` open the vault too; gives the number of its slot.
  Result<unsigned> add_credential(const Credential& known, const Credential& fresh, Random& random,
                                  const KdfLimits& limits = {});
  /// `remaining` opens another slot: so the vault cannot be shut for ever. Errors: also usage (no
  /// such slot, or the last one).
  Status remove_slot(unsigned number, const Credential& remaining);

  /// The public key that is waiting to become this client's; made if there is none.
  Result<PublicKey> next_client_key(const Credential& known, Random& random);
  struct ClientKeys {
    PublicKey former, now;
  };
  /// From now on the waiting key is this client's. Errors: also usage (none is waiting).
  Result<ClientKeys> use_next_client_key(const Credential& known);
  /// Where server `number` is from now on, and its key. The vault must be locked. Errors: usage (no
  /// such server, another one has that address or key, or the vault is local).
  Status set_server(Party number, const ServerAddress& address);

 private:
  Vault() = default;
  Status set_directory(const std::filesystem::path& directory);
  Status require_ours(const std::filesystem::path& name);
  /// Waits; nobody else changes vault.json or vault.key while it lives.
  Result<Descriptor> lock_files() const;
  Status reread();
  static Result<Recovered> put_back(const std::filesystem::path& directory,
                                    const VaultConfig& config,
                                    const std::optional<KeyWrap>& old_wrap, ByteSpan keys);
  Status write_config(VaultConfig config);
  Result<KeyFile> read_keys() const;
  Status write_keys(const KeyFile& keys);
  struct KeyChange;
  Result<KeyChange> start_change(const Credential& known);
  /// Fills a slot that is not there, and writes the file.
  Status add_slot(KeyChange& change, unsigned number, const Credential& credential, Random& random,
                  const KdfLimits& limits);

  std::filesystem::path directory_;
  VaultConfig config_;
  std::optional<KeyWrap> old_wrap_;  // of a vault.key from before there were slots
  Descriptor lock_;
};

struct Vault::Recovered {
  Vault vault;
  bool put_back = false;  // into a vault that was there
};

}  // namespace s3oram
