// A volume in use: the client engine on its own thread, its transport, its work pool and, for a
// local vault, the server processes. The file system daemon opens and closes it.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "oramcore/base/metrics.h"
#include "oramcore/client/volume_engine.h"
#include "oramcore/oram/block_device.h"
#include "oramcore/protocol/messages.h"
#include "oramcore/vault/vault.h"

namespace s3oram {

/// The result of Volume::repair() or a scrub.
struct RepairedVolume {
  std::set<Party> reenrolled;              // servers that took their places again
  std::map<Party, std::uint64_t> healed;   // shares, by server
  std::uint64_t lost = 0;                  // slots that are damaged at too many servers
  std::map<Party, std::uint64_t> lost_at;  // Healed::lost_at
  std::uint64_t unproven = 0;              // Healed::unproven
  std::string hindrance;  // why the servers could not send each other shares; empty if they could
  std::vector<Party> untold;  // after replace(): servers that do not know the new one yet
};

/// A scrub of a volume in use: the current one, or the last one.
struct ScrubStatus {
  bool running = true;
  std::uint64_t looked_at = 0, of = 0;  // buckets
  RepairedVolume found;                 // so far
  std::optional<Error> failure;         // why it was cut short
};

struct MigrationStatus;

/// A snapshot of counters, for `status`. It is wide because status shows each of them.
struct VolumeStatus {
  struct Server {
    std::string address;
    bool answering = false;
    double silent_seconds = 0;  // how long it has not been answering
    // An error that the server reports because of its disk or its store, or what it does instead of
    // answering ("does not know ..."), if known; otherwise empty.
    std::string trouble;
    Errc trouble_code = Errc::ok;
    // The overdue work of a server that answers, such as "a root write"; empty if there is none.
    std::string stalled_at;
    double stalled_seconds = 0;
    // The standing of the server in its mirror, which works without servers that are away or
    // catching up.
    enum class Place { in_step, catching_up, away };
    Place place = Place::in_step;
    std::uint64_t missing_buckets = 0, copied_slots = 0;  // its progress while it catches up
    std::set<Party> cut_from;   // other servers to which its lines are cut
    bool unrepaired = false;    // a repair of it was begun and has not ended
    bool lacks_room = false;    // its disk has no room for a larger tree
    bool uses_reserve = false;  // its disk is full, and it uses the room that it kept back
    unsigned restarts = 0;      // how often we restarted it, in a local vault
    std::uint64_t bytes_sent = 0;
    std::uint64_t bytes_received = 0;
  };
  std::vector<Server> servers;
  std::uint64_t blocks = 0;    // mapped blocks
  std::uint64_t capacity = 0;  // blocks that fit before the tree grows by a level
  unsigned height = 0;         // H
  std::uint64_t accesses = 0;  // accesses since the volume was opened
  std::uint64_t evictions = 0;
  bool evicting = false;            // one is under way
  std::uint64_t evictions_due = 0;  // full groups of accesses, including the one under way
  double evicting_seconds = 0;      // time taken so far by the one under way
  std::uint64_t unreadable = 0;     // blocks whose last read failed
  std::string failure;              // why the volume has failed for good; empty if it has not
  std::string evictions_stopped;    // why no more are begun: servers disagree; or empty
  std::string database_trouble;     // why commits of vault.db fail; empty if they do not
  double committing_seconds = 0;    // time taken so far by the commit under way
  bool vault_lacks_room = false;    // the disk of vault.db is full
  bool shares_disk = false;         // the vault and its servers have one disk (a local vault)
  std::uint64_t stash = 0;          // blocks in the client's stash
  std::uint64_t uncommitted = 0;    // position changes that no commit holds yet
  std::optional<TopStatus> top;     // if the client keeps the top of the tree
  std::optional<ScrubStatus> scrub;
  std::shared_ptr<const MigrationStatus> migration;  // null if none is under way
};

struct MigrationStatus {
  bool is_open = true;  // if false, `hindrance` says why neither volume is; it is retried
  SchemeKind from = SchemeKind::s3oram;  // scheme of the source
  std::uint64_t moved = 0, left = 0;     // blocks
  std::uint64_t unreadable = 0;          // blocks in `left` that the source could not read
  std::optional<double> seconds_left;    // estimated
  std::uint64_t rate = 0;                // limits the copies, bytes per second; no limit if 0
  std::string hindrance;                 // why blocks do not move; empty if they do
  std::vector<VolumeStatus::Server> source_servers;  // what is known of them
};

struct VolumeOptions {
  std::filesystem::path serverd;      // s3oramfs-serverd, for a local vault
  std::filesystem::path record;       // absolute; records server 1's reads and writes, unless empty
  std::chrono::seconds deadline{20};  // open() gives up after this, if nothing moves
  std::function<void(const std::string&)> progress;  // called with what a slow open does
  bool rewrite_first = false;                        // only for a rebuild: RebuildOptions
  bool accept_older = false;  // rebuild a migrating volume although blocks are lost
  Metrics* metrics = &unread_metrics();
};

/// The result of Volume::rebuild().
struct RebuiltVolume {
  std::vector<BlockId> backup;   // blocks that were written as parts of a backup, ascending
  std::uint64_t blocks = 0;      // blocks of all kinds
  std::uint64_t damaged = 0;     // slots on which too few servers agree: their content is lost
  std::uint64_t suspect = 0;     // blocks of a ring whose newer version is lost
  bool former_was_last = false;  // a vault.db exists, and nobody has used the volume since
  std::set<Party> left_out;      // servers of a mirror that took no part
};

/// Opening a local vault's volume changes the working directory of the process to the vault's run/.
class Volume {
 public:
  /// Makes vault.db, and the volume at every server, for a vault just created, and marks the vault
  /// as ready. Asks all servers first, and makes nothing unless all answer and none holds a volume.
  /// Can be called again after an error or a crash.
  static Status create(Vault& vault, const VaultKeys& keys, const VolumeOptions& options);

  /// Starts everything and recovers from an earlier crash. `vault` is locked and must outlive the
  /// volume. Errors: unreachable, refused_key, wrong_volume, stale_vault, ...
  static Result<std::unique_ptr<Volume>> open(Vault& vault, const VaultKeys& keys,
                                              const VolumeOptions& options);

  /// Rebuilds the volume's part of a lost or damaged vault.db from what the servers hold
  /// (rebuild.h), in `file`, which must be missing or empty. The volume can be opened with it once
  /// it replaces vault.db. Until then the current vault.db can be opened, if it could before.
  /// Reports its progress to `options.progress`. Can be called again after an error or a crash.
  /// Shuts out any other client of the volume. Errors: exists, unreachable, refused_key,
  /// wrong_volume (also: a server's store was rolled back), unsupported (a server is older) ...
  static Result<RebuiltVolume> rebuild(Vault& vault, const VaultKeys& keys,
                                       const VolumeOptions& options,
                                       const std::filesystem::path& file);

  /// Repairs these servers. First re-enrols those that hold no volume (their store was lost, and
  /// they were given an empty one) or that have lost only their shares; for a local vault, creates
  /// missing stores. Then makes the servers check every slot that they hold, and heals damaged ones
  /// from the others' shares. Without `servers`, checks all of them, none of which may be empty,
  /// and also heals shares that contradict each other. Reports its progress to `options.progress`.
  /// Can be called again after an error or a crash. A volume whose servers all have their places
  /// can also be opened. Errors: those of open(), and disk_full, usage (there is no such server),
  /// unsupported (a server is older, or the scheme has only one copy of everything).
  static Result<RepairedVolume> repair(Vault& vault, const VaultKeys& keys,
                                       const VolumeOptions& options, std::set<Party> servers);

  /// Puts another machine, or an empty store, in the place of a server: checks that it answers,
  /// records its address and key in the vault, tells the other servers, and repairs it. Can be
  /// called again after an error or a crash. Errors: those of repair(), and usage (the servers of a
  /// local vault have no address; or another server has this one).
  static Result<RepairedVolume> replace(Vault& vault, const VaultKeys& keys,
                                        const VolumeOptions& options, Party server,
                                        const ServerAddress& address);
  virtual ~Volume() = default;

  /// Does what replace() does, while the volume is in use (VolumeEngine::replace()); then begins a
  /// scrub of that server, which status() reports. Returns the servers that do not know the new one
  /// yet: they are told as soon as they answer. Any thread. Errors: vault_in_use (a scrub is under
  /// way).
  virtual Result<std::vector<Party>> replace_server(Party server, const ServerAddress& address) = 0;

  virtual BlockDevice& device() = 0;
  /// Any thread.
  virtual VolumeStatus status() = 0;
  /// Returns what each server has sent and received since it was started, on its links to the
  /// client (party 0) and to the other servers; an empty list for a server that does not answer
  /// within a second. Any thread.
  virtual std::vector<std::vector<LinkTraffic>> server_traffic() = 0;
  /// Starts a scrub: all servers check everything that they hold, as in repair() without `servers`,
  /// while accesses continue. status() reports on it, and close() ends it. Does nothing if one is
  /// under way. Any thread.
  virtual void begin_scrub() = 0;
  /// Begins to move to the volume in the vault's next/ (migrate). The device stays in use: its
  /// requests wait only for a moment. First opens the new volume beside the current one, and
  /// commits all changes of that. Any thread. Errors: usage (next/ is empty), vault_in_use (a
  /// migration or a scrub is under way), disk_full (the new servers have too little room),
  /// unreachable, ... After an error everything is as before, or the next reopen() continues
  /// (MigrationStatus tells which).
  virtual Status begin_migration(std::uint64_t rate) = 0;
  /// Changes the rate. Errors: usage (no migration is under way), those of writing vault.json.
  virtual Status set_migration_rate(std::uint64_t rate) = 0;
  /// Copies blocks from now on, while there is a migration. Call it when the device's participant
  /// has found out which blocks it needs. Any thread.
  virtual void begin_copying() = 0;
  /// Ends a migration in which every block has moved and the names have been backed up since,
  /// because the backups at the source are left behind. Can be called again after an error. Any
  /// thread.
  virtual Status end_migration() = 0;
  /// Tries to open what begin_migration() could not open again. Does nothing if everything is open.
  /// Any thread.
  virtual Status reopen() = 0;
  /// Returns the volume's numbers if its servers share this machine's disk. Any thread; does not
  /// wait for the connection.
  virtual std::optional<VolumeParams> local() const = 0;
  /// Commits, waits for the commit, and stops all threads and local servers. The device must not be
  /// used afterwards.
  virtual Status close() = 0;
};

}  // namespace s3oram
