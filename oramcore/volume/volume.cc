// Makes, opens, repairs and rebuilds volumes, over a connection to their servers.
#include "oramcore/volume/volume.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>
#include <iterator>
#include <mutex>
#include <thread>

#include "oramcore/base/file_watch.h"
#include "oramcore/base/human.h"
#include "oramcore/base/system_error.h"
#include "oramcore/base/workers.h"
#include "oramcore/client/migrating_device.h"
#include "oramcore/client/reenrolment.h"
#include "oramcore/client/servers.h"
#include "oramcore/client/state_check.h"
#include "oramcore/db/database_file.h"
#include "oramcore/db/sealed_disk.h"
#include "oramcore/schemes/registry.h"
#include "oramcore/vault/advice.h"
#include "oramcore/vault/private_directory.h"
#include "oramcore/volume/connection.h"
#include "oramcore/volume/migration.h"

namespace s3oram {
namespace {

/// How long a server that takes another one's place, and those that are told of it, may take to
/// answer.
constexpr Duration kNewcomerAnswers = std::chrono::seconds(10);

/// Between two looks at what servers report of their room.
constexpr Duration kLookAgain = std::chrono::milliseconds(100);

/// Checks that vault.db belongs to this volume, before any server is asked.
Status check_owner(const Vault& vault, const VaultKeys& keys) {
  SealedDisk disk(keys.pages);
  // Users name the vault, not the directory of a source in it.
  const std::filesystem::path directory =
      vault.is_source() ? vault.directory().parent_path() : vault.directory();
  if (std::error_code error;
      vault.is_source() && !std::filesystem::exists(vault.database(), error) && !error)
    return fail(Errc::damaged_vault, "{} is gone: s3oramfs restore --force {} makes it again",
                vault.database().string(), shell_word(directory));
  S3O_TRY(check_page_key(vault.database(), *disk.page_key()));
  auto database = Database::open(vault.database().string(), Database::Mode::read_only, disk);
  if (!database) return fail(advise_on_database(database.error(), directory));
  const auto other = other_owner(
      *database, {vault.config().volume, vault.config().params, keys.of(vault.config()).sealing});
  if (!other) return fail(advise_on_database(other.error(), directory));
  if (!other->empty()) return fail(Errc::damaged_vault, "{}", *other);
  return {};
}

const VolumeKind& kind_of(const Vault& vault) { return volume_kind(vault.config().params); }

ClientVolume client_volume(const Vault& vault, const VaultKeys& keys) {
  return {vault.config().volume, vault.config().params, keys.of(vault.config()).sealing,
          vault.directory()};
}

RepairedVolume repaired(const Healed& healed) {
  return {.reenrolled = {},
          .healed = healed.shares,
          .lost = healed.lost,
          .hindrance = healed.hindrance,
          .untold = {}};
}

/// Checks that the server can be replaced.
Status check_replaceable(const Vault& vault, Party server) {
  const std::string directory = vault.directory().string();
  const unsigned count = vault.config().params.scheme.servers;
  if (vault.config().local)
    return fail(
        Errc::usage,
        "{}: its servers run on this machine: s3oramfs repair --server N makes a lost store "
        "again",
        directory);
  if (server < 1 || server > count)
    return fail(Errc::usage, "{}: there is no server {}, but {} from 1 on", directory, server,
                count);
  if (!kind_of(vault).can_reenrol(vault.config().params))
    return fail(Errc::unsupported,
                "{}: its one server has the only copy of everything: stop it, copy its whole store "
                "to the new machine, start it there, and run s3oramfs server {} 1 HOST:PORT,KEY",
                directory, shell_word(vault.directory()));
  return {};
}

/// As PeerRequest has it.
std::string peer_text(Party server, const ServerAddress& address) {
  return fmt::format("{}={},{}", server, address.host_port, to_text(address.key));
}

/// Names what a server is asked to do, for use in a sentence.
std::string_view words_of(MessageType type) {
  switch (type) {
    case MessageType::retrieve:
      return "a retrieval";
    case MessageType::write_root:
      return "a root write";
    case MessageType::commit:
      return "the end of an eviction";
    case MessageType::open:
      return "opening the session";
    case MessageType::damage:
    case MessageType::read_slot:
    case MessageType::heal_slot:
    case MessageType::contribute:
    case MessageType::mend:
      return "healing a slot";
    default:
      return "a question";
  }
}

/// Before a migration goes on: a block whose row is bad would be taken from the source, which has
/// an old content of it.
Status check_places(const Vault& vault, Disk& disk) {
  S3O_ASSIGN(auto database,
             Database::open(vault.database().string(), Database::Mode::read_only, disk));
  const auto report = kind_of(vault).check(database, vault.config().params);
  for (const Finding& finding : report->findings)
    if (!finding.harmless)
      return fail(Errc::damaged_vault,
                  "{}: {}: while the vault moves to other servers, it is not mounted with that: "
                  "s3oramfs restore --force {}",
                  finding.where, finding.what, shell_word(vault.directory()));
  return {};
}

/// A volume that is open: the vault's, or the source of a migration.
struct OpenPart {
  std::unique_ptr<Connection> connection;
  std::unique_ptr<VolumeEngine> engine;  // used on the thread
};

/// It is wide because it implements Volume, for one engine or, while blocks move, for two.
class OpenVolume final : public Volume {
 public:
  OpenVolume(Vault& vault, const VaultKeys& keys, const VolumeOptions& options,
             std::shared_ptr<NetworkThread> thread)
      : vault_(vault),
        keys_(keys),
        options_(options),
        disk_(keys.pages),
        thread_(std::move(thread)),
        device_(thread_->executor(), thread_->clock(), vault.config().params.block_size) {}
  ~OpenVolume() override {
    if (!closed_) static_cast<void>(close());
  }

  /// Opens what vault.json names. Without evictions the source of a migration stays shut, and the
  /// device is not used.
  Status start(VolumeEngine::Evictions evictions = VolumeEngine::Evictions::as_due) {
    const bool serves = evictions == VolumeEngine::Evictions::as_due;
    const auto& source = vault_.config().source;
    if (source) S3O_TRY(check_places(vault_, disk_));
    OpenPart here, there;
    S3O_TRY(open(vault_, here, *options_.metrics, evictions));
    if (source && serves) {
      const Vault from = vault_.source();
      Status opened = check_owner(from, keys_.of(from.config()));
      if (opened) opened = open(from, there, unread_metrics(), evictions);
      if (!opened) static_cast<void>(close(here, false));
      if (!opened && opened.error().code == Errc::unreachable)
        return fail(
            Errc::unreachable,
            "{}: blocks are there that have not moved yet, so the vault waits for it (if it "
            "is gone for good: s3oramfs restore --moved --force {})",
            opened.error().message, shell_word(vault_.directory()));
      S3O_TRY(opened);
    }
    database_file_ = FileWatch(vault_.database());
    const VaultConfig& config = vault_.config();
    {
      const std::lock_guard lock(local_mutex_);
      local_ = config.local ? std::optional(config.params) : std::nullopt;
    }
    thread_->on_thread([&] {
      here_ = std::move(here);
      source_ = std::move(there);
      from_ = source;
      failure_.clear();
      if (source_.engine)
        device_.serve(*here_.engine, *source_.engine, from_->rate);
      else if (serves)
        device_.serve(*here_.engine);
    });
    options_.progress = {};  // it belongs to the caller that opens the volume
    return {};
  }

  BlockDevice& device() override { return device_; }

  VolumeStatus status() override {
    return thread_->on_thread([this] {
      VolumeStatus status;
      status.failure = failure_;
      if (!here_.engine) {
        status.migration = shut_migration();
        return status;
      }
      const EngineStatus engine = here_.engine->status();
      const Connection& connection = *here_.connection;
      status.blocks = engine.blocks;
      status.capacity = engine.capacity;
      status.height = engine.height;
      status.accesses = engine.accesses;
      status.evictions = engine.evictions;
      status.evicting = engine.evicting;
      status.evictions_due = engine.evictions_due;
      status.evicting_seconds = seconds(engine.evicting_for);
      status.unreadable = engine.unreadable;
      status.failure = connection.named(engine.failure);
      if (engine.evictions_stopped)
        status.evictions_stopped = connection.named(engine.evictions_stopped->message);
      status.database_trouble = trouble_of_database(engine);
      status.committing_seconds = seconds(engine.committing_for);
      status.stash = engine.stash;
      status.uncommitted = engine.uncommitted;
      status.top = engine.top;
      status.scrub = scrub_;
      status.servers = servers_of(here_, engine);
      status.migration = migration_status(status);
      return status;
    });
  }

  std::vector<std::vector<LinkTraffic>> server_traffic() override {
    std::vector<std::vector<LinkTraffic>> links;
    for (OpenPart* const part : {&here_, &source_}) {
      auto answers = thread_->run([&] { return traffic_of(*part); });
      for (auto& answer : answers)
        links.push_back(answer ? std::move(answer->links) : std::vector<LinkTraffic>());
    }
    return links;
  }

  void begin_scrub() override {
    thread_->on_thread([this] {
      if (here_.engine && !is_scrubbing() && !exchanging_) begin_scrub_of({});
    });
  }

  Result<std::vector<Party>> replace_server(Party server, const ServerAddress& address) override {
    const std::lock_guard lock(changing_);
    S3O_TRY(check_replaceable(vault_, server));
    if (!thread_->on_thread([this] { return here_.engine != nullptr; }))
      return fail(Errc::unreachable, "the volume is not open: {}", failure_);
    S3O_TRY(here_.connection->check_newcomer(server, address, kNewcomerAnswers));
    return thread_->run([&]() -> Task<Result<std::vector<Party>>> {
      Connection& connection = *here_.connection;
      if (is_scrubbing())
        co_return fail(Errc::vault_in_use, "a scrub is under way: wait until it has ended");
      VolumeEngine::Replacement replacement{
          server, [&] { return connection.exchange(vault_, server, address); },
          peer_text(server, address)};
      auto untold = co_await here_.engine->replace(std::move(replacement));
      if (!untold) co_return fail(connection.explain(fail(std::move(untold).error())).error());
      begin_scrub_of({server});
      co_return untold;
    });
  }

  Result<Healed> scrub(const std::set<Party>& servers,
                       const std::function<void(const std::string&)>& progress) {
    return thread_->run([&]() -> Task<Result<Healed>> {
      VolumeEngine::ScrubProgress told;
      if (progress)
        told = [&](std::uint64_t looked_at, std::uint64_t of, const Healed& healed) {
          progress(
              fmt::format("{} of {} buckets, {} shares healed", looked_at, of, healed.total()));
        };
      auto healed = co_await here_.engine->scrub(servers, told);
      if (!healed)
        co_return fail(here_.connection->explain(fail(std::move(healed).error())).error());
      co_return healed;
    });
  }

  Status begin_migration(std::uint64_t rate) override {
    const std::lock_guard lock(changing_);
    S3O_TRY(check_migration(vault_));
    S3O_TRY(begin_exchange());
    Status begun = try_next();
    if (begun) begun = give_up_engine();
    if (begun) {
      begun = s3oram::begin_migration(vault_, keys_, rate);
      const Status opened = open_again();
      if (begun) begun = opened;
    }
    thread_->on_thread([this] { exchanging_ = false; });
    return begun;
  }

  Status set_migration_rate(std::uint64_t rate) override {
    const std::lock_guard lock(changing_);
    if (!vault_.config().source)
      return fail(Errc::usage, "{}: no migration is under way", vault_.directory().string());
    S3O_TRY(vault_.set_migration_rate(rate));
    thread_->on_thread([&] {
      from_ = vault_.config().source;
      device_.set_rate(rate);
    });
    return {};
  }

  void begin_copying() override {
    thread_->on_thread([this] { device_.begin_copying(); });
  }

  /// vault.json says that it has ended, before anything is given up; until then this can be tried
  /// again.
  Status end_migration() override {
    const std::lock_guard lock(changing_);
    const bool moved = thread_->on_thread([this] {
      const auto progress = device_.progress();
      return progress && progress->left == 0;
    });
    if (!moved) return fail(Errc::failed, "not all blocks have moved");
    static_cast<void>(thread_->run([&]() -> Task<Status> {
      co_await device_.await_source_unused();
      co_return Status{};
    }));
    // A block is here for good once its place is committed.
    std::promise<Status> committed;
    device_.commit([&](Status status) { committed.set_value(std::move(status)); });
    S3O_TRY(committed.get_future().get());
    S3O_TRY(vault_.end_migration());
    thread_->on_thread([this] {
      device_.forget_source();
      from_ = nullptr;
    });
    // Nothing of it is needed, and what stays of its files the next opening removes.
    for (const Status& done : {close(source_, true), settle_migration(vault_, keys_)})
      if (!done) spdlog::warn("{}", done.error().message);
    return {};
  }

  Status reopen() override {
    const std::lock_guard lock(changing_);
    return thread_->on_thread([this] { return here_.engine != nullptr; }) ? Status{} : open_again();
  }

  std::optional<VolumeParams> local() const override {
    const std::lock_guard lock(local_mutex_);
    return local_;
  }

  Status close() override {
    closed_ = true;
    thread_->on_thread([this] { device_.stop_copying(); });
    Status status = thread_->run([this]() -> Task<Status> {
      Status closed = co_await close_engine(here_, true);
      const Status left = co_await close_engine(source_, true);
      co_await device_.close();
      co_return closed ? left : closed;
    });
    for (OpenPart* const part : {&here_, &source_})
      if (const Status stopped = close(*part, false); status) status = stopped;
    database_.join();
    arithmetic_.join();
    return status;
  }

 private:
  static double seconds(Duration duration) {
    return std::chrono::duration<double>(duration).count();
  }
  static VolumeStatus::Server::Place place_of(Standing standing) {
    using Place = VolumeStatus::Server::Place;
    if (standing == Standing::away || standing == Standing::leaving) return Place::away;
    return standing == Standing::following ? Place::catching_up : Place::in_step;
  }

  // ---- opening and closing

  Status open(const Vault& vault, OpenPart& part, Metrics& metrics,
              VolumeEngine::Evictions evictions) {
    const VaultKeys keys = keys_.of(vault.config());
    VolumeOptions options = options_;
    if (&vault != &vault_) options.record.clear();
    S3O_ASSIGN(part.connection, Connection::make(vault, keys, options, thread_));
    Connection& connection = *part.connection;
    S3O_TRY(connection.run([&]() -> Task<Status> {
      Servers servers(connection.executor(), connection.clock(), connection.random(),
                      connection.transport(), vault.config().volume, connection.servers());
      co_return co_await connection.await_servers(servers, options_,
                                                  InStep(vault.config().params).least());
    }));
    auto made = connection.on_thread([&] {
      const ClientEnvironment environment{connection.executor(),
                                          database_.executor(),
                                          arithmetic_.executor(),
                                          connection.clock(),
                                          connection.random(),
                                          connection.transport(),
                                          metrics};
      return kind_of(vault).engine(client_volume(vault, keys), environment, disk_);
    });
    if (!made) return fail(advise_on_database(made.error(), vault.directory()));
    part.engine = std::move(*made);
    const Status opened =
        connection.run([&] { return part.engine->open(options_.deadline, evictions); });
    if (opened) return {};
    const Status explained = connection.explain(opened);
    static_cast<void>(close(part, false));
    return fail(advise_on_database(explained.error(), vault.directory()));
  }

  /// Errors: vault_in_use (a scrub is under way), unreachable (the volume is not open).
  Status begin_exchange() {
    return thread_->on_thread([this]() -> Status {
      if (is_scrubbing())
        return fail(Errc::vault_in_use, "a scrub is under way: wait until it has ended");
      if (!here_.engine) return fail(Errc::unreachable, "the volume is not open: {}", failure_);
      exchanging_ = true;
      return {};
    });
  }

  /// Opens the volume in next/ as it will be opened, and closes it again, while the present one is
  /// in use: what would hinder it shows now.
  Status try_next() {
    S3O_ASSIGN(const auto next, vault_.next());
    S3O_TRY(check_owner(*next, keys_));
    OpenPart part;
    S3O_TRY(open(*next, part, unread_metrics(), VolumeEngine::Evictions::as_due));
    Status fits = thread_->run([&] { return check_room(part, next->config()); });
    Status closed = close(part, true);
    return fits ? closed : fits;
  }

  /// Errors: disk_full (the servers of the new volume have no room for the blocks of this one).
  Task<Status> check_room(const OpenPart& next, const VaultConfig& config) {
    const VolumeEngine& engine = *next.engine;
    const std::uint64_t needed = here_.engine->status().blocks;
    S3O_CO_TRY(check_block_numbers(needed, engine.status().height, config.params));
    next.engine->refresh_room();
    const Duration until = thread_->clock().now() + options_.deadline;
    std::uint64_t found = 0;
    do {
      const Room room = next.engine->room();
      std::uint64_t more = room.more;
      // Servers of this machine share one disk, and each reports all of it as free.
      if (std::error_code unknown; config.local) {
        const auto space = std::filesystem::space(vault_.directory(), unknown);
        const std::uint64_t bytes = growth_that_fits(config.params, config.params.scheme.servers,
                                                     engine.status().height, space.available);
        if (!unknown) more = std::min(more, bytes / config.params.block_size);
      }
      found = room.blocks + more;
      if (found >= needed) co_return Status{};
      co_await thread_->clock().sleep(kLookAgain);
    } while (thread_->clock().now() < until);
    co_return fail(Errc::disk_full,
                   "the new servers have room for {} blocks, and {} are to be moved there: make "
                   "room on their disks",
                   found, needed);
  }

  /// Closes the volume, of which nothing is lost. After an error it is in use as before.
  Status give_up_engine() {
    const Status committed = thread_->run([this]() -> Task<Status> {
      S3O_CO_TRY(co_await device_.pause(options_.deadline / 2));
      Status status = co_await device_.commit_paused();
      if (!status)
        device_.resume();
      else
        device_.let_go();
      co_return status;
    });
    if (!committed) return here_.connection->explain(committed);
    if (const Status closed = close(here_, true); !closed)
      spdlog::warn("{}", closed.error().message);  // everything acknowledged is committed
    return {};
  }

  static Task<Status> close_engine(OpenPart& part, bool with_commit) {
    if (!part.engine) co_return Status{};
    co_return co_await part.engine->close(with_commit);
  }

  /// Does nothing to what is not open. The device does not use it.
  Status close(OpenPart& part, bool with_commit) {
    Status status = thread_->run([&]() -> Task<Status> {
      auto closed = co_await close_engine(part, with_commit);
      while (asking_ > 0) co_await asked_.wait();
      part.engine.reset();
      co_return closed;
    });
    // Nobody reads its status any more when it is destroyed.
    const auto connection = thread_->on_thread([&] { return std::move(part.connection); });
    if (!connection) return status;
    Status stopped = connection->stop_servers();
    return status ? stopped : status;
  }

  /// After a begin_migration() that may have ended anywhere.
  Status open_again() {
    Status opened = settle_migration(vault_, keys_);
    thread_->on_thread([this] { from_ = vault_.config().source; });
    if (opened) opened = check_owner(vault_, keys_);
    if (opened) opened = start();
    if (!opened) {
      thread_->on_thread([&] { failure_ = opened.error().message; });
      spdlog::error("the volume cannot be opened again: {}; it is tried again",
                    opened.error().message);
    }
    return opened;
  }

  // ---- status; on the thread

  std::vector<VolumeStatus::Server> servers_of(const OpenPart& part,
                                               const EngineStatus& engine) const {
    std::vector<VolumeStatus::Server> servers;
    for (Party server = 1; server <= part.connection->servers(); ++server)
      servers.push_back(status_of(*part.connection, server, engine.servers[server - 1u]));
    return servers;
  }
  VolumeStatus::Server status_of(Connection& connection, Party server,
                                 const EngineStatus::Server& told) const {
    const Traffic traffic = connection.transport().traffic(server);
    const auto silent = silent_for(connection, server, told.silent_for);
    VolumeStatus::Server status{.address = connection.name(server),
                                .answering = !silent,
                                .silent_seconds = silent ? seconds(*silent) : 0,
                                .trouble = {},
                                .stalled_at = {},
                                .place = place_of(told.standing),
                                .missing_buckets = told.catching_up.missing,
                                .copied_slots = told.catching_up.copied,
                                .restarts = connection.restarts(server),
                                .bytes_sent = traffic.bytes_sent,
                                .bytes_received = traffic.bytes_received};
    if (silent) {
      status.trouble = connection.refusal(server);
    } else if (told.trouble) {
      status.trouble = told.trouble->error.message;
      status.trouble_code = told.trouble->error.code;
    } else if (told.stall) {
      status.stalled_at = words_of(told.stall->doing);
      status.stalled_seconds = seconds(told.stall->time);
    }
    return status;
  }
  /// Finds out that the file is gone even if nothing was committed since.
  std::string trouble_of_database(const EngineStatus& engine) const {
    if (engine.database) return engine.database->error.message;
    const Status there = database_file_.check();
    return there ? std::string() : there.error().message;
  }
  /// Judges a server to which no request is open by its connection.
  static std::optional<Duration> silent_for(Connection& connection, Party server,
                                            std::optional<Duration> unanswered) {
    const ZmqTransport& transport = connection.transport();
    if (transport.state(server) == PeerState::connected) return unanswered;
    const Duration lost = std::chrono::steady_clock::now() - transport.state_since(server);
    return std::max(lost, unanswered.value_or(Duration::zero()));
  }
  /// Returns the state of the migration while the volume is not open.
  std::shared_ptr<const MigrationStatus> shut_migration() const {
    if (!from_) return nullptr;
    auto told = std::make_shared<MigrationStatus>();
    told->is_open = false;
    told->from = from_->volume.params.kind();
    told->rate = from_->rate;
    told->hindrance = failure_.empty() ? "the volume is being opened" : failure_;
    return told;
  }
  /// Adds what is at the source to `status`.
  std::shared_ptr<const MigrationStatus> migration_status(VolumeStatus& status) const {
    const auto progress = device_.progress();
    if (!progress) return nullptr;
    const EngineStatus engine = source_.engine->status();
    if (status.failure.empty()) status.failure = source_.connection->named(engine.failure);
    auto told = std::make_shared<MigrationStatus>();
    told->from = from_->volume.params.kind();
    told->moved = progress->moved;
    told->left = progress->left;
    told->unreadable = progress->unreadable;
    if (progress->takes) told->seconds_left = seconds(*progress->takes);
    told->rate = from_->rate;
    told->hindrance = here_.connection->named(progress->hindrance);
    told->source_servers = servers_of(source_, engine);
    return told;
  }

  Task<std::vector<Result<TrafficAnswer>>> traffic_of(const OpenPart& part) {
    if (!part.engine) co_return std::vector<Result<TrafficAnswer>>();
    ++asking_;
    auto answers = co_await part.engine->server_traffic();
    if (--asking_ == 0) asked_.notify_all();
    co_return answers;
  }

  bool is_scrubbing() const { return scrub_ && scrub_->running; }

  void begin_scrub_of(std::set<Party> servers) {
    scrub_.emplace();
    spawn(thread_->executor(), scrub_beside(std::move(servers)));
  }

  Task<void> scrub_beside(std::set<Party> servers) {
    spdlog::info("scrub started on {}",
                 servers.empty() ? "all servers" : fmt::format("server {}", *servers.begin()));
    const auto healed = co_await here_.engine->scrub(
        std::move(servers),
        [this](std::uint64_t looked_at, std::uint64_t of, const Healed& so_far) {
          scrub_->looked_at = looked_at;
          scrub_->of = of;
          scrub_->found = repaired(so_far);
        });
    scrub_->running = false;
    if (healed)
      spdlog::info("scrub ended: {} shares were healed, and {} slots are lost", healed->total(),
                   healed->lost);
    else if (here_.connection)
      scrub_->failure = here_.connection->explain(fail(healed.error())).error();
    else  // a migration began
      scrub_->failure = healed.error();
  }

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

}  // namespace

Status Volume::create(Vault& vault, const VaultKeys& keys, const VolumeOptions& options) {
  S3O_ASSIGN(auto connection, Connection::make(vault, keys, options));
  const Status created = connection->run([&]() -> Task<Status> {
    Connection& c = *connection;
    Servers servers(c.executor(), c.clock(), c.random(), c.transport(), vault.config().volume,
                    c.servers());
    S3O_CO_TRY(co_await c.await_servers(servers, options, c.servers()));
    co_return co_await servers.create(vault.config().params, options.deadline);
  });
  if (!created) return connection->explain(created);
  // An earlier init, cut short, may have made vault.db already.
  SealedDisk disk(keys.pages);
  S3O_TRY(kind_of(vault).create(client_volume(vault, keys), disk));
  {
    S3O_ASSIGN(auto database,
               Database::open(vault.database().string(), Database::Mode::read_write, disk));
    S3O_TRY(database.transact("owner", [&] {
      return keep_owner(database, {vault.config().volume, vault.config().params, keys.sealing});
    }));
  }
  S3O_TRY(connection->stop_servers());
  return vault.mark_ready();
}

namespace {

Result<RebuiltVolume> rebuild_one(const Vault& vault, const VaultKeys& keys,
                                  const VolumeOptions& options, const std::filesystem::path& file) {
  SealedDisk disk(keys.pages);
  S3O_TRY(ClientState::check_free(file, disk));
  S3O_ASSIGN(auto connection, Connection::make(vault, keys, options));
  std::unique_ptr<RebuiltState> rebuilt;
  const Status found = connection->run([&]() -> Task<Status> {
    Connection& c = *connection;
    {
      Servers servers(c.executor(), c.clock(), c.random(), c.transport(), vault.config().volume,
                      c.servers());
      S3O_CO_TRY(co_await c.await_servers(servers, options, c.servers()));
    }
    const ClientEnvironment environment{c.executor(), c.executor(), c.executor(),
                                        c.clock(),    c.random(),   c.transport()};
    S3O_CO_ASSIGN(rebuilt, co_await kind_of(vault).rebuild(
                               client_volume(vault, keys), environment, disk,
                               {options.deadline, options.progress, options.rewrite_first}));
    co_return Status{};
  });
  if (!found) return fail(connection->explain(found).error());
  S3O_TRY(connection->stop_servers());
  S3O_TRY(rebuilt->store(file, disk));
  return RebuiltVolume{.backup = std::move(rebuilt->backup),
                       .blocks = rebuilt->blocks,
                       .damaged = rebuilt->damaged,
                       .suspect = rebuilt->suspect,
                       .former_was_last = rebuilt->former_was_last};
}

/// Adds the source of a migration to what was rebuilt of the volume: blocks, and parts of the last
/// backup, may be there still.
Status rebuild_source(const Vault& source, const VaultKeys& keys, const VolumeOptions& options,
                      RebuiltVolume& found) {
  S3O_TRY(make_private_directory(source.directory()));
  S3O_TRY(make_private_directory(source.run_directory()));
  const std::filesystem::path made = source.database().string() + ".restoring";
  S3O_TRY(remove_database(made));
  SealedDisk disk(keys.pages);
  // What is there may know of blocks in the client's stash, which the servers do not have.
  const bool is_sound = std::filesystem::exists(source.database()) && check_owner(source, keys) &&
                        check_places(source, disk);
  S3O_ASSIGN(const auto there, rebuild_one(source, keys, options, made));
  if (is_sound && there.former_was_last)
    S3O_TRY(remove_database(made));
  else
    S3O_TRY(replace_database(made, source.database(), disk));
  std::vector<BlockId> parts;
  std::ranges::set_union(found.backup, there.backup, std::back_inserter(parts));
  found.backup = std::move(parts);
  found.blocks += there.blocks;
  found.damaged += there.damaged;
  found.suspect += there.suspect;
  return {};
}

}  // namespace

Result<RebuiltVolume> Volume::rebuild(Vault& vault, const VaultKeys& keys,
                                      const VolumeOptions& options,
                                      const std::filesystem::path& file) {
  S3O_TRY(settle_migration(vault, keys));
  S3O_ASSIGN(auto rebuilt, rebuild_one(vault, keys, options, file));
  if (vault.config().source) {
    if (rebuilt.damaged + rebuilt.suspect > 0 && !options.accept_older)
      return fail(
          Errc::damaged_vault,
          "{}: {} slots or blocks are damaged at the servers to which the vault moves: of a "
          "block that was lost there, the servers from which it moves may have an older "
          "content, and it would not show. Nothing is changed. s3oramfs repair or scrub may "
          "mend them; to take what is there: restore --accept-older",
          vault.directory().string(), rebuilt.damaged + rebuilt.suspect);
    const Vault source = vault.source();
    if (const Status added = rebuild_source(source, keys.of(source.config()), options, rebuilt);
        !added)
      return fail(added.error().code,
                  "{} (if the migration has ended since the recovery file was written, or these "
                  "servers are gone for good: restore --moved)",
                  added.error().message);
  }
  return rebuilt;
}

namespace {

Status check_usable(const Vault& vault, const VaultKeys& keys) {
  S3O_TRY(vault.require_ready());
  if (std::error_code error; !std::filesystem::exists(vault.database(), error))
    return fail(Errc::damaged_vault, "{} is gone: s3oramfs restore {} rebuilds it",
                vault.database().string(), shell_word(vault.directory()));
  return check_owner(vault, keys);
}

/// Makes the stores that are gone, of these servers of a local vault.
Status make_stores(const Vault& vault, const std::set<Party>& servers) {
  if (!vault.config().local) return {};
  std::vector<Party> gone;
  for (Party server = 1; server <= vault.config().params.scheme.servers; ++server)
    if (std::error_code error; !std::filesystem::is_directory(vault.store(server), error))
      gone.push_back(server);
  S3O_TRY(Reenrolment::check_enough(vault.config().params, gone.size()));
  for (const Party server : gone)
    if (servers.contains(server)) S3O_TRY(vault.make_store(server));
  return {};
}

/// The servers that a repair has to deal with before it can open the volume.
struct Unfit {
  std::set<Party> lost;     // they hold no volume
  std::set<Party> lacking;  // they have lost only their shares
};

/// Finds them among `servers`. Errors: wrong_volume (another server lacks its shares).
Task<Result<Unfit>> find_unfit(Servers& all, const VolumeId& volume, const std::set<Party>& servers,
                               Duration patience) {
  S3O_CO_ASSIGN(const auto hellos, co_await all.hello(patience));
  Unfit unfit;
  for (const HelloAnswer& hello : hellos) {
    const bool named = servers.contains(hello.server);
    if (!hello.volume || hello.volume->id != volume) {
      if (named) unfit.lost.insert(hello.server);
      continue;
    }
    const auto lack = co_await all.lacks_shares(hello.server, patience);
    if (lack && !named) co_return fail(*lack);
    if (lack) unfit.lacking.insert(hello.server);
  }
  co_return unfit;
}

/// Re-enrols those of these servers that hold no volume, and tells those that have lost their
/// shares to expect new ones.
Result<std::set<Party>> reenrol(Connection& connection, const Vault& vault, Disk& disk,
                                const std::set<Party>& servers, const VolumeOptions& options) {
  const VaultConfig& config = vault.config();
  auto state = ClientState::open(vault.database(), disk);
  if (!state) return fail(advise_on_database(state.error(), vault.directory()));
  std::set<Party> lost;
  const Status reenrolled = connection.run([&]() -> Task<Status> {
    {
      Servers all(connection.executor(), connection.clock(), connection.random(),
                  connection.transport(), config.volume, connection.servers());
      S3O_CO_TRY(co_await connection.await_servers(all, options, connection.servers()));
      S3O_CO_ASSIGN(auto unfit, co_await find_unfit(all, config.volume, servers, options.deadline));
      lost = std::move(unfit.lost);
      for (const Party server : unfit.lacking) {
        ReenrolRequest request;
        request.volume = {config.volume, config.params, server};
        request.last = true;
        S3O_CO_TRY(co_await all.reenrol(request, options.deadline));
      }
    }
    if (lost.empty()) co_return Status{};
    const ClientEnvironment environment{connection.executor(), connection.executor(),
                                        connection.executor(), connection.clock(),
                                        connection.random(),   connection.transport()};
    Reenrolment reenrolment(environment, config.volume, config.params, *state);
    co_return co_await reenrolment.run(lost, options.deadline);
  });
  if (!reenrolled) return fail(connection.explain(reenrolled).error());
  return lost;
}

}  // namespace

namespace {

/// Tells the other servers of one's new address and key. Returns those that do not know it now.
Task<std::vector<Party>> tell_of_peer(Connection& connection, const Vault& vault, Party server,
                                      const ServerAddress& address) {
  Servers all(connection.executor(), connection.clock(), connection.random(),
              connection.transport(), vault.config().volume, connection.servers());
  Bytes others;
  for (Party other = 1; other <= connection.servers(); ++other)
    if (other != server) others.push_back(other);
  const std::string peer = peer_text(server, address);
  const auto told = co_await for_each_of(
      others, [&](Party other) { return all.tell_of_peer(other, peer, kNewcomerAnswers); });
  std::vector<Party> untold;
  for (std::size_t i = 0; i < others.size(); ++i)
    if (!told[i]) untold.push_back(others[i]);
  co_return untold;
}

}  // namespace

Result<RepairedVolume> Volume::repair(Vault& vault, const VaultKeys& keys,
                                      const VolumeOptions& options, std::set<Party> servers) {
  S3O_TRY(settle_migration(vault, keys));
  S3O_TRY(check_usable(vault, keys));
  const Party count = vault.config().params.scheme.servers;
  for (const Party server : servers)
    if (server < 1 || server > count)
      return fail(Errc::usage, "{}: there is no server {}, but {} from 1 on",
                  vault.directory().string(), server, count);
  if (!servers.empty()) {
    const Status can = kind_of(vault).can_reenrol(vault.config().params);
    if (!can)
      return fail(can.error().code, "{}: {}", vault.directory().string(), can.error().message);
  }
  S3O_TRY(make_stores(vault, servers));
  std::set<Party> reenrolled;
  if (!servers.empty()) {
    S3O_ASSIGN(const auto connection, Connection::make(vault, keys, options));
    SealedDisk disk(keys.pages);
    S3O_ASSIGN(auto taken, reenrol(*connection, vault, disk, servers, options));
    reenrolled = std::move(taken);
    S3O_TRY(connection->stop_servers());
  }
  S3O_ASSIGN(auto thread, NetworkThread::start());
  OpenVolume volume(vault, keys, options, std::move(thread));
  // An eviction would move slots that are damaged at too many servers, and so give them up.
  S3O_TRY(volume.start(VolumeEngine::Evictions::none));
  const auto healed = volume.scrub(servers, options.progress);
  Status closed = volume.close();
  if (!healed) return fail(healed.error());
  if (!closed) return fail(std::move(closed).error());
  RepairedVolume out = repaired(*healed);
  out.reenrolled = std::move(reenrolled);
  return out;
}

Result<RepairedVolume> Volume::replace(Vault& vault, const VaultKeys& keys,
                                       const VolumeOptions& options, Party server,
                                       const ServerAddress& address) {
  S3O_TRY(settle_migration(vault, keys));
  S3O_TRY(check_usable(vault, keys));
  S3O_TRY(check_replaceable(vault, server));
  std::vector<Party> untold;
  {
    S3O_ASSIGN(const auto connection, Connection::make(vault, keys, options));
    S3O_TRY(connection->check_newcomer(server, address, options.deadline));
    S3O_TRY(connection->on_thread([&] { return connection->exchange(vault, server, address); }));
    untold = connection->run([&] { return tell_of_peer(*connection, vault, server, address); });
  }
  S3O_ASSIGN(auto repaired, repair(vault, keys, options, {server}));
  repaired.untold = std::move(untold);
  return repaired;
}

Result<std::unique_ptr<Volume>> Volume::open(Vault& vault, const VaultKeys& keys,
                                             const VolumeOptions& options) {
  S3O_TRY(settle_migration(vault, keys));
  S3O_TRY(check_usable(vault, keys));
  S3O_ASSIGN(auto thread, NetworkThread::start());
  auto volume = std::make_unique<OpenVolume>(vault, keys, options, std::move(thread));
  S3O_TRY(volume->start());
  return std::unique_ptr<Volume>(std::move(volume));
}

}  // namespace s3oram
