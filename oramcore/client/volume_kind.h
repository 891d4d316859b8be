// The differences between the schemes when a volume is made, opened, checked or rebuilt: the
// engine, its tables in vault.db, and the files beside vault.db. oramcore/schemes/registry.h lists
// the kinds.
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

/// A volume, as its client knows it.
struct ClientVolume {
  VolumeId id{};
  VolumeParams params;
  Seed sealing{};                   // the key that seals its blocks
  std::filesystem::path directory;  // the vault's directory
  std::filesystem::path database() const { return directory / "vault.db"; }
};

/// The findings of a check of the scheme's tables in vault.db (fsck).
class StateReport {
 public:
  virtual ~StateReport() = default;
  Findings findings;
  /// The reason why the volume cannot be opened, if it cannot: damaged_vault, unsupported, or
  /// failed (the disk could not read the tables). No repair can fix that, and the other fields are
  /// then empty.
  std::optional<Error> refused;
  std::vector<BlockId> blocks;   // blocks that have a place, ascending
  std::set<BlockId> unreadable;  // those of `blocks` whose last read failed
  /// Deletes the bad rows. Must be called in a transaction, and not if the state was refused.
  virtual Status repair(Database& database) const = 0;
};

struct RebuildOptions {
  Duration patience{};
  std::function<void(const std::string&)> progress;  // may be empty
  /// For schemes whose servers report which points of a bucket have been asked for: does not trust
  /// those reports, and rewrites each bucket before it asks for anything in it.
  bool rewrite_first = false;
};

/// The result of reading what the servers hold.
class RebuiltState {
 public:
  virtual ~RebuiltState() = default;
  std::vector<BlockId> backup;   // the blocks that are parts of a backup, ascending
  std::uint64_t blocks = 0;      // blocks of all kinds
  std::uint64_t damaged = 0;     // slots, or buckets and writes of the log, whose content is lost
  std::uint64_t suspect = 0;     // blocks found only in an older version
  bool former_was_last = false;  // a vault.db exists, and nobody has used the volume since
  std::set<Party> left_out;      // servers of a mirror that took no part
  /// Creates the tables in `file`, which must be missing or empty.
  virtual Status store(const std::filesystem::path& file, Disk& disk) const = 0;
};

/// Stateless.
class VolumeKind {
 public:
  virtual ~VolumeKind() = default;

  /// Returns the largest size in bytes of a message of such a volume.
  virtual std::size_t largest_message(const VolumeParams& params) const = 0;

  /// Returns the largest size in bytes of the vault's files beside vault.db.
  virtual std::uint64_t bytes_beside(const VolumeParams& params) const = 0;
  /// Creates the tables of a new volume in vault.db, and the files beside vault.db. Keeps those
  /// that an earlier attempt has made. Errors: disk_full.
  virtual Status create(const ClientVolume& volume, Disk& disk) const = 0;
  /// Opens the tables and files. `environment` and `disk` must outlive the engine, which the caller
  /// still has to open(). Runs on the engine's executor. Errors: damaged_vault, unsupported.
  virtual Result<std::unique_ptr<VolumeEngine>> engine(const ClientVolume& volume,
                                                       const ClientEnvironment& environment,
                                                       Disk& disk) const = 0;

  /// Returns the names of all tables that such a volume has in vault.db, in any format.
  virtual std::vector<std::string> tables() const = 0;
  /// Reads and checks the tables, in a transaction of the caller, who may roll it back.
  virtual std::unique_ptr<StateReport> check(Database& database,
                                             const VolumeParams& params) const = 0;

  /// Opens a session, which ends that of any other client, and finds out where every block is from
  /// what the servers hold. An existing vault.db can be used as before until the result takes its
  /// place. Errors: unreachable, wrong_volume, corrupt ...
  virtual Task<Result<std::unique_ptr<RebuiltState>>> rebuild(const ClientVolume& volume,
                                                              ClientEnvironment environment,
                                                              Disk& disk,
                                                              RebuildOptions how) const = 0;

  /// Checks that the lost store of a server can be recreated from the other servers. Errors:
  /// unsupported, with what to do instead.
  virtual Status can_reenrol(const VolumeParams& params) const = 0;
};

}  // namespace s3oram
