// A volume that is open: its engine and connection and, while blocks move, those of the source. One
// that is repaired is opened like this, too.
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

/// How long a server that takes another one's place, and those that are told of it, may take to
/// answer.
inline constexpr Duration kNewcomerAnswers = std::chrono::seconds(10);

/// A volume that is open: the vault's, or the source of a migration.
struct OpenPart {
  std::unique_ptr<Connection> connection;
  std::unique_ptr<VolumeEngine> engine;  // used on the thread
};

/// Returns what a user is told of shares that were healed.
RepairedVolume repaired(const Healed& healed);

/// It is wide because it implements Volume, for one engine or, while blocks move, for two.
class OpenVolume final : public Volume {
 public:
  OpenVolume(Vault& vault, const VaultKeys& keys, const VolumeOptions& options,
             std::shared_ptr<NetworkThread> thread);
  ~OpenVolume() override;

  /// Opens what vault.json names. Without evictions the source of a migration stays shut, and the
  /// device is not used.
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
  /// vault.json says that it has ended, before anything is given up; until then this can be tried
  /// again.
  Status end_migration() override;
  Status reopen() override;
  std::optional<VolumeParams> local() const override;
  Status close() override;

 private:
  // ---- opening and closing

  Status open(const Vault& vault, OpenPart& part, Metrics& metrics,
              VolumeEngine::Evictions evictions);
  /// Errors: vault_in_use (a scrub is under way), unreachable (the volume is not open).
  Status begin_exchange();
  /// Opens the volume in next/ as it will be opened, and closes it again, while the present one is
  /// in use: what would hinder it shows now.
  Status try_next();
  /// Errors: disk_full (the servers of the new volume have no room for the blocks of this one).
  Task<Status> check_room(const OpenPart& next, const VaultConfig& config);
  /// Closes the volume, of which nothing is lost. After an error it is in use as before.
  Status give_up_engine();
  static Task<Status> close_engine(OpenPart& part, bool with_commit);
  /// Does nothing to what is not open. The device does not use it.
  Status close(OpenPart& part, bool with_commit);
  /// After a begin_migration() that may have ended anywhere.
  Status open_again();

  // ---- status; on the thread

  std::vector<VolumeStatus::Server> servers_of(const OpenPart& part,
                                               const EngineStatus& engine) const;
  VolumeStatus::Server status_of(Connection& connection, Party server,
                                 const EngineStatus::Server& told) const;
  /// Finds out that the file is gone even if nothing was committed since.
  std::string trouble_of_database(const EngineStatus& engine) const;
  /// Returns the state of the migration while the volume is not open.
  std::shared_ptr<const MigrationStatus> shut_migration() const;
  /// Adds what is at the source to `status`.
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
  std::shared_ptr<const MigrationSource> from_;  // what vault.json says of it
  std::size_t asking_ = 0;  // questions to engines about traffic; on the thread
  Event asked_;
  std::string failure_;               // why nothing is open; on the thread
  bool exchanging_ = false;           // the engine is about to be exchanged; on the thread
  std::optional<ScrubStatus> scrub_;  // on the thread
  mutable std::mutex local_mutex_;    // of the next
  std::optional<VolumeParams> local_;
  bool closed_ = false;
};

}  // namespace s3oram
