// The vault: a directory (mode 0700) on the client, with
//   vault.json   the public part: format, volume, servers
//   vault.key    the master key, wrapped for each credential that opens it (key_file.h), 0600
//   vault.db     SQLite: positions, versions, sessions (oramcore), names and extents (fused)
//   lock         locked while a process has the vault open
//   run/         sockets of a mounted vault
//   servers/N/   with --local: the store of server N
//   next/        a volume that is being made and to which the vault is to move (migrate)
//   source/      the volume from which blocks are moving: all of the above except keys and lock
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
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

struct VaultConfig;

/// The secrets of an open vault; wiped on destruction.
struct VaultKeys {
  Seed sealing{};  // AEAD key of the blocks
  Seed first{};    // the same for the vault's first volume
  Seed later{};    // secret from which the keys of later volumes are derived
  Seed pages{};    // seals vault.db (db/page_seal.h)
  KeyPair curve;   // this client's key pair for the servers
  ~VaultKeys();
  /// Returns these keys, with the sealing key of the given volume.
  VaultKeys of(const VaultConfig& volume) const;
};

struct ServerAddress {
  std::string host_port;  // "host:port"; empty in a local vault
  PublicKey key{};
  friend bool operator==(const ServerAddress&, const ServerAddress&) = default;
};

struct MigrationSource;

/// The contents of vault.json.
struct VaultConfig {
  VolumeId volume{};
  VolumeParams params;
  bool local = false;
  std::vector<ServerAddress> servers;  // l of them; server i is servers[i - 1]
  // The servers have the volume. If not, init did not finish (servers refused the new key): it can
  // be run again, and until then the vault cannot be mounted.
  bool ready = false;
  // vault.db is sealed, or about to be. A program that does not know seals rejects such a vault.
  bool sealed = true;
  // The blocks have a key of their own, because the vault has moved to this volume. Two volumes
  // never share a key, because nonces and masks of some schemes would occur twice.
  bool own_key = false;
  // The volume from which blocks are moving; null if there is none.
  std::shared_ptr<const MigrationSource> source;
};

struct MigrationSource {
  VaultConfig volume;
  std::uint64_t rate = 0;  // limits the copies: bytes per second; no limit if 0
};

enum class ClientKey { in_use, next };

/// It is wide because it is the only access to a vault's files: each command that reads or changes
/// them has its method, under the same locks.
class Vault {
 public:
  /// Makes the directory and its files (but not the database). Leaves nothing behind after an
  /// error. Errors: exists (the directory is not empty).
  static Result<Vault> create(const std::filesystem::path& directory, const VaultConfig& config,
                              const Credential& credential, Random& random,
                              const KdfLimits& limits = {});
  /// Reads vault.json; needs no credential. Errors: not_a_vault, damaged_vault, unsupported; for
  /// root also failed (the vault belongs to another user, whom this process has to become first:
  /// see VaultPlace).
  static Result<Vault> find(const std::filesystem::path& directory);

  /// Returns a text from which recover() recreates this vault when its directory is lost. The same
  /// credentials open it. The text does not contain the names of files: the servers keep those
  /// (Volume::rebuild). Errors: usage (a local vault, whose servers are lost with it),
  /// damaged_vault.
  Result<std::string> recovery() const;
  /// Makes the directory from such a text; `source` names the text in messages. Leaves nothing
  /// behind after an error. Finds what an earlier call made. If vault.db exists, restores
  /// vault.json and vault.key if they are gone, damaged or edited, keeps the old ones with
  /// ".damaged" appended to their names, and locks the vault. Errors: exists (something else is
  /// there, or both files are sound), damaged_vault, unsupported, vault_in_use.
  struct Recovered;
  static Result<Recovered> recover(const std::filesystem::path& directory, const std::string& text,
                                   const std::filesystem::path& source);

  /// Locks the vault for this process until the Vault is destroyed. Errors: vault_in_use.
  Status lock();
  /// Locks the vault, and waits for a process that is about to release it: a daemon continues to
  /// write for a while after an unmount, and a killed one takes a moment to end. Calls `waiting`
  /// from time to time. Errors: vault_in_use (it is mounted, or was not released within 20 s).
  Status lock_when_left(const std::function<void()>& waiting);
  /// Returns a copy of the lock, which keeps it held for the next program that this process
  /// executes.
  Descriptor lend_lock() const;
  /// Takes over a lock that lend_lock() has returned.
  void adopt_lock(Descriptor lock) { lock_ = std::move(lock); }
  /// Returns whether a process has locked the vault in `directory`; false if there is no vault.
  /// Changes nothing there. Errors: failed (the lock file may not be opened).
  static Result<bool> is_in_use(const std::filesystem::path& directory);
  /// Returns the vault's keys; with ClientKey::next, the client's key is the one that
  /// next_client_key() made. Errors: wrong_passphrase, damaged_vault.
  Result<VaultKeys> unlock(const Credential& credential, ClientKey which = ClientKey::in_use) const;
  /// Returns whether a passphrase opens the vault (and not a key file, or no credential). Needs no
  /// credential. Errors: damaged_vault.
  Result<bool> wants_passphrase() const;
  /// Checks that vault.key exists, is private and whole. Needs no credential. Errors:
  /// damaged_vault, failed (other users may read it).
  Status check_key() const;

  /// Checks VaultConfig::ready. Errors: failed (init did not finish).
  Status require_ready() const;

  const std::filesystem::path& directory() const { return directory_; }
  const VaultConfig& config() const { return config_; }
  std::filesystem::path database() const { return directory_ / "vault.db"; }
  std::filesystem::path run_directory() const { return directory_ / "run"; }
  std::filesystem::path store(Party server) const;
  /// Makes an empty store in place of one that is gone. Only for local vaults.
  Status make_store(Party server) const;

  // Migration from the volume of vault.json to another one, which is first made in next/.

  /// Makes next/ for a volume, or finds what an earlier call made for the same servers. Errors:
  /// exists (next/ is for other servers), vault_in_use (a migration is under way), disk_full.
  Result<Vault> make_next(VaultConfig config);
  /// Returns the volume in next/; std::nullopt if there is none. Errors: damaged_vault,
  /// unsupported.
  Result<std::optional<Vault>> next() const;
  /// Returns the volume from which blocks are moving: its configuration, stores and files. There
  /// must be one.
  Vault source() const;
  bool is_source() const { return part_ == Part::source; }
  /// Makes the volume `next` this vault's, and the current one its source. Durable when it returns;
  /// after an error it may have happened, and reread() shows whether it has.
  Status begin_migration(const VaultConfig& next, std::uint64_t rate);
  /// Records that no block is at the source. Can be repeated after an error.
  Status end_migration();
  /// Records a limit for the copies.
  Status set_migration_rate(std::uint64_t rate);
  /// Sets the address and the key of server `number` of the source. The vault must be locked.
  /// Errors: those of set_server(), and usage (no migration is under way).
  Status set_source_server(Party number, const ServerAddress& address);
  /// Reads vault.json again. Errors: not_a_vault, damaged_vault, unsupported.
  Status reread();
  std::filesystem::path next_directory() const { return directory_ / "next"; }
  std::filesystem::path source_directory() const { return directory_ / "source"; }
  /// Return the directory in which a process must be to find the sockets of local servers, and
  /// their paths from there, because the paths of unix sockets are limited in length.
  std::filesystem::path sockets_directory() const;
  std::string socket(Party server) const;

  /// Durably records that the servers have the volume.
  Status mark_ready();
  /// Durably records that vault.db is sealed, before it is. Does nothing if that is already
  /// recorded.
  Status mark_sealed();

  // The credentials of the vault, and this client's key (vault_keys.cc). The vault need not be
  // locked: if it is mounted, the mount sees a change only when it is mounted again. Each change is
  // durable when it returns, and atomic: at any time either the old credentials or the new ones
  // open the vault. Concurrent changes wait for each other. `known` already opens the vault.
  // Errors: wrong_passphrase, damaged_vault, disk_full, usage.

  /// A slot of vault.key, and how to open it.
  struct Slot {
    unsigned number = 0;
    KeyWrap wrap;
  };
  Result<std::vector<Slot>> slots() const;
  /// Replaces the credential of the slot that `known` opens. Returns the slot's number.
  Result<unsigned> change_credential(const Credential& known, const Credential& fresh,
                                     Random& random, const KdfLimits& limits = {});
  /// Adds a slot, so that `fresh` also opens the vault. Returns the number of the slot.
  Result<unsigned> add_credential(const Credential& known, const Credential& fresh, Random& random,
                                  const KdfLimits& limits = {});
  /// Removes a slot. `remaining` must open another one, so that the vault cannot be locked out
  /// forever. Errors: also usage (there is no such slot, or it is the last one).
  Status remove_slot(unsigned number, const Credential& remaining);

  /// Returns the public key that waits to become this client's; makes one if there is none.
  Result<PublicKey> next_client_key(const Credential& known, Random& random);
  struct ClientKeys {
    PublicKey former, now;
  };
  /// Makes the waiting key this client's. Errors: also usage (none is waiting).
  Result<ClientKeys> use_next_client_key(const Credential& known);
  /// Sets the address and the key of server `number`. The vault must be locked. Errors: usage
  /// (there is no such server, another one has that address or key, or the vault is local).
  Status set_server(Party number, const ServerAddress& address);
  /// Sets how far the servers are trusted from the next mount on. The vault must be locked. Errors:
  /// usage (the volume's evictor does not support it).
  Status set_security(Security security);
  /// Sets the numbers of a volume that is not made yet. The vault must be locked. Errors: usage
  /// (the volume is made, or `params` has another scheme or number of servers).
  Status set_params(const VolumeParams& params);

 private:
  enum class Part { present, source, next };
  Vault() = default;
  Status set_server_of(Part part, Party number, const ServerAddress& address);
  Status set_directory(const std::filesystem::path& directory);
  Status require_ours(const std::filesystem::path& name);
  /// Waits for a lock. While it is held, no other process changes vault.json or vault.key.
  Result<Descriptor> lock_files() const;
  static Result<Recovered> put_back(const std::filesystem::path& directory,
                                    const VaultConfig& config,
                                    const std::optional<KeyWrap>& old_wrap, ByteSpan keys);
  Status write_config(VaultConfig config);
  Result<KeyFile> read_keys() const;
  Status write_keys(const KeyFile& keys);
  struct KeyChange;
  Result<KeyChange> start_change(const Credential& known);
  /// Adds a slot, and writes the file.
  Status add_slot(KeyChange& change, unsigned number, const Credential& credential, Random& random,
                  const KdfLimits& limits);

  std::filesystem::path directory_;
  VaultConfig config_;
  std::optional<KeyWrap> old_wrap_;  // wrap of a vault.key in the format before slots
  Descriptor lock_;
  Part part_ = Part::present;
};

struct Vault::Recovered {
  Vault vault;
  bool put_back = false;  // files were restored in an existing vault
};

}  // namespace s3oram
