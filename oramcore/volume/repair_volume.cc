// Repairs the servers of a volume, and replaces a server by another one.
#include "oramcore/client/client_state.h"
#include "oramcore/client/in_step.h"
#include "oramcore/client/reenrolment.h"
#include "oramcore/client/servers.h"
#include "oramcore/vault/advice.h"
#include "oramcore/volume/migration.h"
#include "oramcore/volume/open_volume.h"
#include "oramcore/volume/vault_volume.h"

namespace s3oram {
namespace {

/// Makes the stores of these servers of a local vault that are gone.
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

/// The servers that a repair has to handle before it can open the volume.
struct Unfit {
  std::set<Party> lost;     // they hold no volume
  std::set<Party> lacking;  // they have lost only their shares
};

/// Finds unfit servers among `servers`. Errors: wrong_volume (another server lacks its shares),
/// unreachable (one of `servers` does not answer, or another one that the volume needs).
Task<Result<Unfit>> find_unfit(Servers& all, const VaultConfig& config,
                               const std::set<Party>& servers, Duration patience) {
  const bool needs_all = !InStep(config.params).may_shrink();
  const auto hellos = co_await all.hello_each(patience);
  Unfit unfit;
  for (Party server = 1; server <= all.count(); ++server) {
    const auto& hello = hellos[server - 1u];
    const bool named = servers.contains(server);
    const bool is_away = !hello && hello.error().code == Errc::unreachable;
    if (is_away && !needs_all && !named) continue;
    if (!hello) co_return fail(hello.error());
    if (!hello->volume || hello->volume->id != config.volume) {
      if (named) unfit.lost.insert(server);
      continue;
    }
    const auto lack = co_await all.lacks_shares(server, patience);
    if (lack && !named) co_return fail(*lack);
    if (lack) unfit.lacking.insert(server);
  }
  co_return unfit;
}

/// Tells servers that have lost their shares to expect new ones.
Task<Status> expect_shares(Connection& connection, const VaultConfig& config,
                           const std::set<Party>& lacking, Duration patience) {
  Servers all(connection.executor(), connection.clock(), connection.random(),
              connection.transport(), config.volume, connection.servers());
  for (const Party server : lacking) {
    ReenrolRequest request;
    request.volume = {config.volume, config.params, server};
    request.last = true;
    S3O_CO_TRY(co_await all.reenrol(request, patience));
  }
  co_return Status{};
}

/// Re-enrols those of these servers that hold no volume, and tells those that have lost their
/// shares to expect new ones.
Result<std::set<Party>> reenrol(Connection& connection, const Vault& vault, Disk& disk,
                                const std::set<Party>& servers, const VolumeOptions& options) {
  const VaultConfig& config = vault.config();
  auto state = ClientState::open(vault.database(), disk);
  if (!state) return fail(advise_on_database(state.error(), vault.directory()));
  const ClientEnvironment environment{connection.executor(), connection.executor(),
                                      connection.executor(), connection.clock(),
                                      connection.random(),   connection.transport()};
  std::set<Party> lost;
  const Status reenrolled = connection.run([&]() -> Task<Status> {
    std::set<Party> lacking;
    {
      Servers all(connection.executor(), connection.clock(), connection.random(),
                  connection.transport(), config.volume, connection.servers());
      S3O_CO_TRY(co_await connection.await_servers(all, options, InStep(config.params).least()));
      S3O_CO_ASSIGN(auto unfit, co_await find_unfit(all, config, servers, options.deadline));
      lost = std::move(unfit.lost);
      lacking = std::move(unfit.lacking);
    }
    if (!lacking.empty()) {
      Reenrolment before(environment, config.volume, config.params, *state);
      std::set<Party> unfit = lost;
      unfit.insert(lacking.begin(), lacking.end());
      S3O_CO_TRY(co_await before.check_present(std::move(unfit), options.deadline));
    }
    S3O_CO_TRY(co_await expect_shares(connection, config, lacking, options.deadline));
    if (lost.empty()) co_return Status{};
    Reenrolment reenrolment(environment, config.volume, config.params, *state);
    co_return co_await reenrolment.run(lost, options.deadline);
  });
  if (!reenrolled) return fail(connection.explain(reenrolled).error());
  return lost;
}

/// Tells the other servers the new address and key of one server. Returns those that did not learn
/// it.
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
  // An eviction would move slots that are damaged at too many servers, and so lose them for good.
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

}  // namespace s3oram
