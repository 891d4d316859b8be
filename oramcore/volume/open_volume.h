// An open volume: its engine and connection and, while blocks move, those of the source. Repairs
// open a volume in the same way.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "oramcore/base/file_watch.h"
#include "oramcore/base/workers.h"
#include "oramcore/client/migrating_device.h"
#include "oramcore/db/sealed_disk.h"
#include "oramcore/volume/connection.h"
#include "oramcore/volume/volume.h"

namespace s3oram {

/// The time in which a server that replaces another one, and those that are told about it, must
/// answer.
inline constexpr Duration kNewcomerAnswers = std::chrono::seconds(10);

/// An open volume: the vault's, or the source of a migration.
struct OpenPart {
  std::unique_ptr<Connection> connection;
  std::unique_ptr<VolumeEngine> engine;  // used on the thread
};

/// Returns the result of healing as a user is shown it.
RepairedVolume repaired(const Healed& healed);

/// It is wide because it implements Volume, for one engine or, while blocks move, for two.
class OpenVolume final : public Volume {
 public:
  OpenVolume(Vault& vault, const VaultKeys& keys, const VolumeOptions& options,
             std::shared_ptr<NetworkThread> thread);
  ~OpenVolume() override;

  /// Opens what vault.json names. With Evictions::none, the source of a migration stays closed, and
  /// the device is not used.
  Status start(VolumeEngine::Evictions evictions = VolumeEngine::Evictions::as_due);

  BlockDevice& device() override { return device_; }
  VolumeStatus status() override;
  std::vector<std::vector<LinkTraffic>> server_traffic() override;
  void begin_scrub() override;
  Result<std::vector<Party>> replace_server(Party server, const ServerAddress& address) override;
  Result<Healed> scrub(const std::set<Party>& servers,
                       const std::function<void(const std::string&)>& progress);
  Status begin_migration(std::uint64_t rate) override;
  Status set_migration_rate(std::uint64_t rate) override;
  void begin_copying() override;
  /// Records in vault.json that the migration has ended, before anything is given up. If that
  /// fails, this can be tried again.
  Status end_migration() override;
  Status reopen() override;
  std::optional<VolumeParams> local() const override;
  Status close() override;

 private:
  // ---- opening and closing

  Status open(const Vault& vault, OpenPart& part, Metrics& metrics,
              VolumeEngine::Evictions evictions);
  /// Begins an exchange of engines. Errors: vault_in_use (a scrub is under way), unreachable (the
  /// volume is not open).
  Status begin_exchange();
  /// Opens the volume in next/ in the same way as later, and closes it again, while the current one
  /// is in use, so that any obstacle shows up now.
  Status try_next();
  /// Checks the room. Errors: disk_full (the servers of the new volume have no room for the blocks
  /// of this one).
  Task<Status> check_room(const OpenPart& next, const VaultConfig& config);
  /// Closes the volume without losing anything. After an error, it is in use as before.
  Status give_up_engine();
  static Task<Status> close_engine(OpenPart& part, bool with_commit);
  /// Closes the part, which the device must not use. Does nothing if it is not open.
  Status close(OpenPart& part, bool with_commit);
  /// Opens the volume after a begin_migration() that may have ended at any point.
  Status open_again();

  // ---- status; on the thread

  std::vector<VolumeStatus::Server> servers_of(const OpenPart& part,
                                               const EngineStatus& engine) const;
  VolumeStatus::Server status_of(Connection& connection, Party server,
                                 const EngineStatus::Server& told) const;
  /// Returns the trouble of vault.db. Notices that the file is gone even if nothing was committed
  /// since.
  std::string trouble_of_database(const EngineStatus& engine) const;
  /// Returns the state of the migration while the volume is not open.
  std::shared_ptr<const MigrationStatus> shut_migration() const;
  /// Returns the state of the migration, and adds the source's numbers to `status`.
  std::shared_ptr<const MigrationStatus> migration_status(VolumeStatus& status) const;
  Task<std::vector<Result<TrafficAnswer>>> traffic_of(const OpenPart& part);

  bool is_scrubbing() const { return scrub_ && scrub_->running; }
  void begin_scrub_of(std::set<Party> servers);
  Task<void> scrub_beside(std::set<Party> servers);

  Vault& vault_;
  const VaultKeys keys_;
  VolumeOptions options_;
  SealedDisk disk_;
  FileWatch database_file_;
  Workers database_{1};
  Workers arithmetic_{std::max(1U, std::thread::hardware_concurrency())};
  std::mutex changing_;  // held while a migration begins or ends
  const std::shared_ptr<NetworkThread> thread_;
  MigratingDevice device_;
  // These change on the thread.
  OpenPart here_, source_;
  std::shared_ptr<const MigrationSource> from_;  // what vault.json says about the source
  std::size_t asking_ = 0;  // questions to engines about traffic; on the thread
  Event asked_;
  std::string failure_;               // why nothing is open; on the thread
  bool exchanging_ = false;           // the engine is about to be exchanged; on the thread
  std::optional<ScrubStatus> scrub_;  // used only on the thread
  mutable std::mutex local_mutex_;    // protects the next
  std::optional<VolumeParams> local_;
  bool closed_ = false;
};

}  // namespace s3oram
