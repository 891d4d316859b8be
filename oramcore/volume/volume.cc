// Makes, opens, repairs and rebuilds volumes, over a connection to their servers.
#include "oramcore/volume/volume.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>

#include "oramcore/base/file_watch.h"
#include "oramcore/base/human.h"
#include "oramcore/base/system_error.h"
#include "oramcore/base/workers.h"
#include "oramcore/client/reenrolment.h"
#include "oramcore/client/servers.h"
#include "oramcore/db/sealed_disk.h"
#include "oramcore/schemes/registry.h"
#include "oramcore/vault/advice.h"
#include "oramcore/volume/connection.h"

namespace s3oram {
namespace {

/// How long a server that takes another one's place, and those that are told of it, may take to
/// answer.
constexpr Duration kNewcomerAnswers = std::chrono::seconds(10);

/// Checks that vault.db belongs to this volume, before any server is asked.
Status check_owner(const Vault& vault, const VaultKeys& keys) {
  SealedDisk disk(keys.pages);
  S3O_TRY(check_page_key(vault.database(), *disk.page_key()));
  auto database = Database::open(vault.database().string(), Database::Mode::read_only, disk);
  if (!database) return fail(advise_on_database(database.error(), vault.directory()));
  const auto other =
      other_owner(*database, {vault.config().volume, vault.config().params, keys.sealing});
  if (!other) return fail(advise_on_database(other.error(), vault.directory()));
  if (!other->empty()) return fail(Errc::damaged_vault, "{}", *other);
  return {};
}

const VolumeKind& kind_of(const Vault& vault) { return volume_kind(vault.config().params); }

ClientVolume client_volume(const Vault& vault, const VaultKeys& keys) {
  return {vault.config().volume, vault.config().params, keys.sealing, vault.directory()};
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

class OpenVolume final : public Volume {
 public:
  OpenVolume(const Vault& vault, const VaultKeys& keys, std::unique_ptr<Connection> connection)
      : vault_(vault), disk_(keys.pages), connection_(std::move(connection)) {}
  ~OpenVolume() override {
    if (engine_) static_cast<void>(close());
  }

  Status start(const VaultKeys& keys, const VolumeOptions& options,
               VolumeEngine::Evictions evictions = VolumeEngine::Evictions::as_due) {
    Connection& connection = *connection_;
    S3O_TRY(connection.run([&]() -> Task<Status> {
      Servers servers(connection.executor(), connection.clock(), connection.random(),
                      connection.transport(), vault_.config().volume, connection.servers());
      co_return co_await connection.await_servers(servers, options,
                                                  InStep(vault_.config().params).least());
    }));
    auto made = connection.on_thread([&] {
      const ClientEnvironment environment{
          connection.executor(), database_.executor(),   arithmetic_.executor(), connection.clock(),
          connection.random(),   connection.transport(), *options.metrics};
      return kind_of(vault_).engine(client_volume(vault_, keys), environment, disk_);
    });
    if (!made) return fail(advise_on_database(made.error(), vault_.directory()));
    engine_ = std::move(*made);
    database_file_ = FileWatch(vault_.database());
    return connection.run([&]() -> Task<Status> {
      auto status = co_await engine_->open(options.deadline, evictions);
      if (!status) co_await abandon();
      auto explained = connection.explain(std::move(status));
      if (explained) co_return explained;
      co_return fail(advise_on_database(explained.error(), vault_.directory()));
    });
  }

  BlockDevice& device() override { return *engine_; }

  VolumeStatus status() override {
    return connection_->on_thread([this] {
      const EngineStatus engine = engine_->status();
      VolumeStatus status{
          .servers = {},
          .blocks = engine.blocks,
          .capacity = engine.capacity,
          .height = engine.height,
          .accesses = engine.accesses,
          .evictions = engine.evictions,
          .evicting = engine.evicting,
          .evictions_due = engine.evictions_due,
          .evicting_seconds = seconds(engine.evicting_for),
          .unreadable = engine.unreadable,
          .failure = connection_->named(engine.failure),
          .evictions_stopped = engine.evictions_stopped
                                   ? connection_->named(engine.evictions_stopped->message)
                                   : std::string(),
          .database_trouble = trouble_of_database(engine),
          .committing_seconds = seconds(engine.committing_for),
          .stash = engine.stash,
          .uncommitted = engine.uncommitted,
          .top = engine.top,
          .scrub = scrub_};
      for (Party server = 1; server <= connection_->servers(); ++server)
        status.servers.push_back(status_of(server, engine.servers[server - 1u]));
      return status;
    });
  }

  std::vector<std::vector<LinkTraffic>> server_traffic() override {
    auto answers = connection_->run([this] { return engine_->server_traffic(); });
    std::vector<std::vector<LinkTraffic>> links;
    for (auto& answer : answers)
      links.push_back(answer ? std::move(answer->links) : std::vector<LinkTraffic>());
    return links;
  }

  void begin_scrub() override {
    connection_->on_thread([this] {
      if (!is_scrubbing()) begin_scrub_of({});
    });
  }

  Result<std::vector<Party>> replace_server(Party server, const ServerAddress& address) override {
    S3O_TRY(connection_->on_thread([&] { return check_replaceable(vault_, server); }));
    S3O_TRY(connection_->check_newcomer(server, address, kNewcomerAnswers));
    return connection_->run([&]() -> Task<Result<std::vector<Party>>> {
      if (is_scrubbing())
        co_return fail(Errc::vault_in_use, "a scrub is under way: wait until it has ended");
      VolumeEngine::Replacement replacement{server,
                                            [&] { return connection_->exchange(server, address); },
                                            peer_text(server, address)};
      auto untold = co_await engine_->replace(std::move(replacement));
      if (!untold) co_return fail(connection_->explain(fail(std::move(untold).error())).error());
      begin_scrub_of({server});
      co_return untold;
    });
  }

  Result<Healed> scrub(const std::set<Party>& servers,
                       const std::function<void(const std::string&)>& progress) {
    return connection_->run([&]() -> Task<Result<Healed>> {
      VolumeEngine::ScrubProgress told;
      if (progress)
        told = [&](std::uint64_t looked_at, std::uint64_t of, const Healed& healed) {
          progress(
              fmt::format("{} of {} buckets, {} shares healed", looked_at, of, healed.total()));
        };
      auto healed = co_await engine_->scrub(servers, told);
      if (!healed) co_return fail(connection_->explain(fail(std::move(healed).error())).error());
      co_return healed;
    });
  }

  Status close() override {
    Status status = connection_->run([this]() -> Task<Status> {
      auto closed = co_await engine_->close();
      engine_.reset();
      co_return closed;
    });
    database_.join();
    arithmetic_.join();
    Status stopped = connection_->stop_servers();
    return status ? stopped : status;
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
  /// Runs on the connection's thread, like the next two.
  VolumeStatus::Server status_of(Party server, const EngineStatus::Server& told) const {
    const Traffic traffic = connection_->transport().traffic(server);
    const auto silent = silent_for(server, told.silent_for);
    VolumeStatus::Server status{.address = connection_->name(server),
                                .answering = !silent,
                                .silent_seconds = silent ? seconds(*silent) : 0,
                                .trouble = {},
                                .stalled_at = {},
                                .place = place_of(told.standing),
                                .missing_buckets = told.catching_up.missing,
                                .copied_slots = told.catching_up.copied,
                                .restarts = connection_->restarts(server),
                                .bytes_sent = traffic.bytes_sent,
                                .bytes_received = traffic.bytes_received};
    if (silent) {
      status.trouble = connection_->refusal(server);
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
  std::optional<Duration> silent_for(Party server, std::optional<Duration> unanswered) const {
    const ZmqTransport& transport = connection_->transport();
    if (transport.state(server) == PeerState::connected) return unanswered;
    const Duration lost = std::chrono::steady_clock::now() - transport.state_since(server);
    return std::max(lost, unanswered.value_or(Duration::zero()));
  }

  bool is_scrubbing() const { return scrub_ && scrub_->running; }

  void begin_scrub_of(std::set<Party> servers) {
    scrub_.emplace();
    spawn(connection_->executor(), scrub_beside(std::move(servers)));
  }

  Task<void> scrub_beside(std::set<Party> servers) {
    spdlog::info("scrub started on {}",
                 servers.empty() ? "all servers" : fmt::format("server {}", *servers.begin()));
    const auto healed = co_await engine_->scrub(
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
    else
      scrub_->failure = connection_->explain(fail(healed.error())).error();
  }

  Task<void> abandon() {
    static_cast<void>(co_await engine_->close(false));
    engine_.reset();
  }

  const Vault& vault_;
  SealedDisk disk_;
  FileWatch database_file_;
  Workers database_{1};
  Workers arithmetic_{std::max(1U, std::thread::hardware_concurrency())};
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<VolumeEngine> engine_;  // this and the next: used on the connection's thread
  std::optional<ScrubStatus> scrub_;
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

Result<RebuiltVolume> Volume::rebuild(Vault& vault, const VaultKeys& keys,
                                      const VolumeOptions& options,
                                      const std::filesystem::path& file) {
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
  S3O_ASSIGN(auto connection, Connection::make(vault, keys, options));
  std::set<Party> reenrolled;
  if (!servers.empty()) {
    SealedDisk disk(keys.pages);
    S3O_ASSIGN(auto taken, reenrol(*connection, vault, disk, servers, options));
    reenrolled = std::move(taken);
  }
  OpenVolume volume(vault, keys, std::move(connection));
  // An eviction would move slots that are damaged at too many servers, and so give them up.
  S3O_TRY(volume.start(keys, options, VolumeEngine::Evictions::none));
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
  S3O_TRY(check_usable(vault, keys));
  S3O_TRY(check_replaceable(vault, server));
  std::vector<Party> untold;
  {
    S3O_ASSIGN(const auto connection, Connection::make(vault, keys, options));
    S3O_TRY(connection->check_newcomer(server, address, options.deadline));
    S3O_TRY(connection->on_thread([&] { return connection->exchange(server, address); }));
    untold = connection->run([&] { return tell_of_peer(*connection, vault, server, address); });
  }
  S3O_ASSIGN(auto repaired, repair(vault, keys, options, {server}));
  repaired.untold = std::move(untold);
  return repaired;
}

Result<std::unique_ptr<Volume>> Volume::open(Vault& vault, const VaultKeys& keys,
                                             const VolumeOptions& options) {
  S3O_TRY(check_usable(vault, keys));
  S3O_ASSIGN(auto connection, Connection::make(vault, keys, options));
  auto volume = std::make_unique<OpenVolume>(vault, keys, std::move(connection));
  S3O_TRY(volume->start(keys, options));
  return std::unique_ptr<Volume>(std::move(volume));
}

}  // namespace s3oram
