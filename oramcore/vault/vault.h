// The vault: a directory (0700) on the client with
//   vault.json   the public part: format, volume, servers
//   vault.key    the master key, wrapped for each credential that opens it (key_file.h), 0600
//   vault.db     SQLite: positions, versions, sessions (oramcore), names and extents (fused)
//   lock         locked while a process has the vault open
//   run/         sockets of a mounted vault
//   servers/N/   with --local: the store of server N
//   next/        a volume that is being made, to which the vault is to move (migrate)
//   source/      the volume from which blocks are moving, with all of the above but keys and lock
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
  Seed first{};    // that key of the vault's first volume
  Seed later{};    // from which those of later volumes are derived
  Seed pages{};    // of vault.db (db/page_seal.h)
  KeyPair curve;   // this client's key towards the servers
  ~VaultKeys();
  /// Returns the keys with the sealing key of this volume.
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
  // Whether the servers have the volume. If not, init did not finish (servers refused the new
  // key): it can be run again, and until then the vault cannot be mounted.
  bool ready = false;
  // Whether vault.db is sealed, or about to be. A program without seals refuses such a vault.
  bool sealed = true;
  // Whether the key of its blocks is its own: that of a volume to which the vault has moved. Two
  // volumes never share one, because nonces and masks of some schemes would come twice.
  bool own_key = false;
  // The volume from which blocks are moving; null if there is none.
  std::shared_ptr<const MigrationSource> source;
};

struct MigrationSource {
  VaultConfig volume;
  std::uint64_t rate = 0;  // bounds the copies: bytes a second, or 0
};

enum class ClientKey { in_use, next };

/// It is wide because it is the one way to a vault's files: each command that reads or changes them
/// has its method, under the same locks.
class Vault {
 public:
  /// Makes the directory and its files (not the database). Leaves nothing behind on an error.
  /// Errors: exists (the directory holds something).
  static Result<Vault> create(const std::filesystem::path& directory, const VaultConfig& config,
                              const Credential& credential, Random& random,
                              const KdfLimits& limits = {});
  /// Reads vault.json; needs no credential. Errors: not_a_vault, damaged_vault, unsupported; for
  /// root also failed (the vault is another user's, whom this process has to become first: see
  /// VaultPlace).
  static Result<Vault> find(const std::filesystem::path& directory);

  /// Returns a text from which recover() makes this vault again when its directory is lost. The
  /// same credentials open it. The names of its files are not in it: the servers keep those
  /// (Volume::rebuild). Errors: usage (a local vault, whose servers are lost with it),
  /// damaged_vault.
  Result<std::string> recovery() const;
  /// Makes the directory from such a text; `source` names the text in messages. Leaves nothing
  /// behind on an error. Finds what an earlier call made. If vault.db exists, puts back those of
  /// vault.json and vault.key that are gone, damaged or edited, keeps the old ones with ".damaged"
  /// behind their names, and locks the vault. Errors: exists (something else is there, or both
  /// files are sound), damaged_vault, unsupported, vault_in_use.
  struct Recovered;
  static Result<Recovered> recover(const std::filesystem::path& directory, const std::string& text,
                                   const std::filesystem::path& source);

  /// Locks the vault for this process until the Vault is destroyed. Errors: vault_in_use.
  Status lock();
  /// Locks the vault, and waits for a process that is about to leave it: a daemon still writes for
  /// a while after an unmount, and a killed one takes a moment to end. Calls `waiting` now and
  /// then. Errors: vault_in_use (it is mounted, or was not left within 20 s).
  Status lock_when_left(const std::function<void()>& waiting);
  /// Returns a copy of the lock, which holds it for the next program that this process executes.
  Descriptor lend_lock() const;
  /// Takes over a lock that lend_lock() has returned.
  void adopt_lock(Descriptor lock) { lock_ = std::move(lock); }
  /// Whether a process has locked the vault in `directory`; false if there is no vault. Changes
  /// nothing there. Errors: failed (the lock may not be opened).
  static Result<bool> is_in_use(const std::filesystem::path& directory);
  /// Returns the vault's keys; with `next`, the client's key is the one that next_client_key()
  /// made. Errors: wrong_passphrase, damaged_vault.
  Result<VaultKeys> unlock(const Credential& credential, ClientKey which = ClientKey::in_use) const;
  /// Whether a passphrase opens it (rather than a key file, or nothing); needs no credential.
  /// Errors: damaged_vault.
  Result<bool> wants_passphrase() const;
  /// Checks that vault.key exists, is private and whole; needs no credential. Errors:
  /// damaged_vault, failed (others may read it).
  Status check_key() const;

  /// Checks VaultConfig::ready. Errors: failed (init did not finish).
  Status require_ready() const;

  const std::filesystem::path& directory() const { return directory_; }
  const VaultConfig& config() const { return config_; }
  std::filesystem::path database() const { return directory_ / "vault.db"; }
  std::filesystem::path run_directory() const { return directory_ / "run"; }
  std::filesystem::path store(Party server) const;
  /// Makes an empty store in place of one that is gone. Local vaults only.
  Status make_store(Party server) const;

  // A migration: from the volume of vault.json to another one, which is first made in next/.

  /// Makes next/ for a volume, or finds what an earlier call made for the same servers. Errors:
  /// exists (what is there is for others), vault_in_use (a migration is under way), disk_full.
  Result<Vault> make_next(VaultConfig config);
  /// The volume in next/; std::nullopt if there is none. Errors: damaged_vault, unsupported.
  Result<std::optional<Vault>> next() const;
  /// The volume from which blocks are moving, which there is: its configuration, stores and files.
  Vault source() const;
  bool is_source() const { return part_ == Part::source; }
  /// Makes the volume `next` this vault's, and the present one its source. Durable when it returns;
  /// after an error it may have happened: reread() says.
  Status begin_migration(const VaultConfig& next, std::uint64_t rate);
  /// Records that no block is at the source. Does the same again after an error.
  Status end_migration();
  /// Records a bound of the copies.
  Status set_migration_rate(std::uint64_t rate);
  /// Sets the address and the key of server `number` of the source. The vault must be locked.
  /// Errors: as of set_server(), and usage (no migration is under way).
  Status set_source_server(Party number, const ServerAddress& address);
  /// Reads vault.json again. Errors: not_a_vault, damaged_vault, unsupported.
  Status reread();
  std::filesystem::path next_directory() const { return directory_ / "next"; }
  std::filesystem::path source_directory() const { return directory_ / "source"; }
  /// The directory that a process must be in to find the sockets of local servers, and their names
  /// from there: unix sockets have short names.
  std::filesystem::path sockets_directory() const;
  std::string socket(Party server) const;

  /// Records durably that the servers have the volume.
  Status mark_ready();
  /// Records durably that vault.db is sealed, before it is. Does nothing if it is recorded already.
  Status mark_sealed();

  // The credentials of the vault, and this client's key (vault_keys.cc). The vault need not be
  // locked: if it is mounted, the mount sees a change only when it is mounted again. Each change is
  // durable when it returns, and atomic: at every instant the old credentials or the new ones open
  // the vault. Concurrent changes wait for each other. `known` already opens the vault. Errors:
  // wrong_passphrase, damaged_vault, disk_full, usage.

  /// A slot of vault.key, and how it is opened.
  struct Slot {
    unsigned number = 0;
    KeyWrap wrap;
  };
  Result<std::vector<Slot>> slots() const;
  /// Replaces the credential of the slot that `known` opens. Returns the slot's number.
  Result<unsigned> change_credential(const Credential& known, const Credential& fresh,
                                     Random& random, const KdfLimits& limits = {});
  /// Lets `fresh` open the vault too. Returns the number of its slot.
  Result<unsigned> add_credential(const Credential& known, const Credential& fresh, Random& random,
                                  const KdfLimits& limits = {});
  /// Removes a slot. `remaining` opens another one, so that the vault cannot be locked out forever.
  /// Errors: also usage (no such slot, or the last one).
  Status remove_slot(unsigned number, const Credential& remaining);

  /// Returns the public key that waits to become this client's, and makes it if there is none.
  Result<PublicKey> next_client_key(const Credential& known, Random& random);
  struct ClientKeys {
    PublicKey former, now;
  };
  /// Makes the waiting key this client's. Errors: also usage (none is waiting).
  Result<ClientKeys> use_next_client_key(const Credential& known);
  /// Sets the address and the key of server `number`. The vault must be locked. Errors: usage (no
  /// such server, another one has that address or key, or the vault is local).
  Status set_server(Party number, const ServerAddress& address);
  /// What is asked of the servers from the next mount on. The vault must be locked. Errors: usage
  /// (the volume's evictor cannot do it).
  Status set_security(Security security);
  /// Sets the numbers of a volume that is not made yet. The vault must be locked. Errors: usage
  /// (the volume is made, or another number of servers).
  Status set_params(const VolumeParams& params);

 private:
  enum class Part { present, source, next };
  Vault() = default;
  Status set_server_of(Part part, Party number, const ServerAddress& address);
  Status set_directory(const std::filesystem::path& directory);
  Status require_ours(const std::filesystem::path& name);
  /// Waits for a lock, during whose life nobody else changes vault.json or vault.key.
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
  std::optional<KeyWrap> old_wrap_;  // of a vault.key of the format before slots
  Descriptor lock_;
  Part part_ = Part::present;
};

struct Vault::Recovered {
  Vault vault;
  bool put_back = false;  // files were put back into an existing vault
};

}  // namespace s3oram
