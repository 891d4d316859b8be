// What differs between the schemes where a volume is made, opened, checked and rebuilt: the
// engine, its tables in vault.db, and its files beside that. oramcore/schemes/registry.h has them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "oramcore/base/disk.h"
#include "oramcore/client/volume_engine.h"
#include "oramcore/db/finding.h"
#include "oramcore/db/sqlite.h"

namespace s3oram {

/// A volume as its client knows it.
struct ClientVolume {
  VolumeId id{};
  VolumeParams params;
  Seed sealing{};                   // the key of its blocks
  std::filesystem::path directory;  // of the vault
  std::filesystem::path database() const { return directory / "vault.db"; }
};

/// What a check of the scheme's tables in vault.db has found (fsck).
class StateReport {
 public:
  virtual ~StateReport() = default;
  Findings findings;
  /// Why the volume cannot be opened, if it cannot: damaged_vault, unsupported, or failed (the disk
  /// could not read it). No repair mends that, and the rest is then empty.
  std::optional<Error> refused;
  std::vector<BlockId> blocks;   // that have a place, ascending
  std::set<BlockId> unreadable;  // of those: they could not be read when they were last asked for
  /// Deletes the rows that are bad. To be called in a transaction, and not for a refused state.
  virtual Status repair(Database& database) const = 0;
};

struct RebuildOptions {
  Duration patience{};
  std::function<void(const std::string&)> progress;  // may be empty
  /// Where the servers say which points of a bucket were asked for: does not believe it, and has
  /// each bucket written again before anything is asked of it.
  bool rewrite_first = false;
};

/// What a rebuild has found at the servers.
class RebuiltState {
 public:
  virtual ~RebuiltState() = default;
  std::vector<BlockId> backup;   // the blocks that are parts of a backup, ascending
  std::uint64_t blocks = 0;      // of any kind
  std::uint64_t damaged = 0;     // slots, or buckets and writes of the log, whose content is lost
  std::uint64_t suspect = 0;     // blocks of which there was a newer version, which is lost
  bool former_was_last = false;  // there is a vault.db, and nobody has used the volume since it
  /// Makes the tables in `file`, which is missing or empty.
  virtual Status store(const std::filesystem::path& file, Disk& disk) const = 0;
};

/// Stateless.
class VolumeKind {
 public:
  virtual ~VolumeKind() = default;

  /// The most bytes that a message of such a volume has.
  virtual std::size_t largest_message(const VolumeParams& params) const = 0;

  /// The most bytes that files beside vault.db take in the vault.
  virtual std::uint64_t bytes_beside(const VolumeParams& params) const = 0;
  /// Makes the tables of a new volume in vault.db, and its files beside that. Keeps those that an
  /// earlier attempt has made. Errors: disk_full.
  virtual Status create(const ClientVolume& volume, Disk& disk) const = 0;
  /// Opens these. `environment` and `disk` must outlive the engine, which is not yet open(). On the
  /// engine's executor. Errors: damaged_vault, unsupported.
  virtual Result<std::unique_ptr<VolumeEngine>> engine(const ClientVolume& volume,
                                                       const ClientEnvironment& environment,
                                                       Disk& disk) const = 0;

  /// The names of all tables that such a volume has in vault.db, of any format.
  virtual std::vector<std::string> tables() const = 0;
  /// Reads and checks the tables, in a transaction of the caller, which may be rolled back.
  virtual std::unique_ptr<StateReport> check(Database& database,
                                             const VolumeParams& params) const = 0;

  /// Opens a session, which ends that of any other client, and finds out from what the servers hold
  /// where every block is. A vault.db that is there can be used as before until the result takes
  /// its place. Errors: unreachable, wrong_volume, corrupt ...
  virtual Task<Result<std::unique_ptr<RebuiltState>>> rebuild(const ClientVolume& volume,
                                                              ClientEnvironment environment,
                                                              Disk& disk,
                                                              RebuildOptions how) const = 0;

  /// Checks that the store of a server that is lost can be made again from the others. Errors:
  /// unsupported, with what to do.
  virtual Status can_reenrol(const VolumeParams& params) const = 0;
};

}  // namespace s3oram
