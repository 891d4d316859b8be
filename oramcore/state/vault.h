// The vault: a directory (0700) on the client with
//   vault.json   what is not secret: format, volume, servers, how the key is wrapped
//   vault.key    the wrapped (or, without a passphrase, plain) master key, 0600
//   vault.db     SQLite: positions, versions, sessions (oramcore), names and extents (fused)
//   lock         locked while a process has the vault open
//   run/         sockets of a mounted vault
//   servers/N/   with --local: the store of server N
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "oramcore/base/error.h"
#include "oramcore/base/random.h"
#include "oramcore/state/key_wrap.h"
#include "oramcore/tree/volume.h"
#include "oramcore/wire/keys.h"
#include "oramcore/wire/transport.h"

namespace s3oram {

/// The secrets of an open vault; wiped on destruction.
struct VaultKeys {
  Seed sealing{};  // AEAD key of the blocks
  KeyPair curve;   // this client's key towards the servers
  ~VaultKeys();
};

struct ServerAddress {
  std::string host_port;  // "host:port"; empty in a local vault
  PublicKey key{};
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
};

class Vault {
 public:
  /// Makes the directory and its files (not the database). Nothing is left behind on an error.
  /// Errors: exists (the directory holds something).
  static Result<Vault> create(const std::filesystem::path& directory, const VaultConfig& config,
                              const Credential& credential, Random& random,
                              const KdfLimits& limits = {});
  /// Reads vault.json; needs no credential. Errors: not_a_vault, damaged_vault, unsupported.
  static Result<Vault> find(const std::filesystem::path& directory);

  /// Locks the vault for this process until the Vault dies. Errors: vault_in_use.
  Status lock();
  /// Errors: wrong_passphrase, damaged_vault.
  Result<VaultKeys> unlock(const Credential& credential) const;
  /// Whether vault.key is there, private and whole; needs no credential. Errors: damaged_vault.
  Status check_key() const;
  /// Whether unlock needs a passphrase (rather than a key file).
  bool wants_passphrase() const { return wrap_.kind == KeyWrap::Kind::passphrase; }

  const std::filesystem::path& directory() const { return directory_; }
  const VaultConfig& config() const { return config_; }
  std::filesystem::path database() const { return directory_ / "vault.db"; }
  std::filesystem::path run_directory() const { return directory_ / "run"; }
  std::filesystem::path store(Party server) const;

  /// Records durably that the servers have the volume.
  Status mark_ready();

  Vault(Vault&& other) noexcept;
  Vault& operator=(Vault&& other) noexcept;
  ~Vault();

 private:
  Vault() = default;
  Result<Bytes> wrapped_key() const;
  std::filesystem::path directory_;
  VaultConfig config_;
  KeyWrap wrap_;
  int lock_ = -1;
};

}  // namespace s3oram
