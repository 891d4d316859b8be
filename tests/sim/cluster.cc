// Opens, rebuilds and re-enrols the volumes of s3oram and mirror in a simulation.
#include "tests/sim/cluster.h"

#include <spdlog/spdlog.h>

#include "oramcore/schemes/registry.h"
#include "serverd/schemes.h"

namespace s3oram::test {

class Cluster::Rebuilder final : public Job {
 public:
  template <class... Args>
  explicit Rebuilder(Args&&... args) : rebuild(std::forward<Args>(args)...) {}
  void stop() override { rebuild.stop(); }
  Rebuild rebuild;
};

class Cluster::Reenroller final : public Job {
 public:
  Reenroller(const ClientEnvironment& environment, const VolumeId& volume,
             const VolumeParams& params, ClientState opened)
      : state_(std::move(opened)), reenrolment(environment, volume, params, state_, 5) {}
  void stop() override { reenrolment.stop(); }

 private:
  ClientState state_;

 public:
  Reenrolment reenrolment;
};

Cluster::Cluster(const VolumeParams& params, std::uint64_t seed)
    : SimWorld(params, seed, "cluster") {
  make_volume();
  require(ClientState::create(database(), params.first_height, disk(kClient)));
}

Result<std::unique_ptr<ShareServer>> Cluster::make_server(Party server,
                                                          const ServerEnvironment& environment) {
  return ShareServer::open("", server, server_scheme, environment);
}

/// Returns std::nullopt if the client died meanwhile, or if `done` will be told the error.
std::optional<ClientState> Cluster::open_state(Life& life,
                                               const std::function<void(Status)>& done) {
  auto state = ClientState::open(database(), *life.disk);
  if (life.dead) return std::nullopt;
  if (state) return std::move(*state);
  asio::post(context, [done, error = state.error()] { done(fail(error)); });
  life.port.reset();
  return std::nullopt;
}

void Cluster::begin_open_client(std::function<void(Status)> done) {
  const auto life = client();
  spdlog::debug("party {}: starts", kClient);
  life->port = network.attach(kClient);
  auto state = open_state(*life, done);
  if (!state) return;
  life->engine = std::make_unique<Engine>(
      client_environment(*life, random_of_client()), volume(), params(),
      client_scheme(params(), sealing_key(), random_of_client()), std::move(*state));
  open_engine(life, std::move(done));
}

void Cluster::begin_rebuild_client(std::function<void(Result<Rebuilt>)> done, Rebuilding how) {
  const auto life = client();
  life->port = network.attach(kClient);
  std::optional<FormerState> former;
  if (how == Rebuilding::beside) {
    if (auto loaded = FormerState::load(database(), params(), *life->disk))
      former = std::move(*loaded);
    if (life->dead) return;
  }
  life->job = std::make_unique<Rebuilder>(
      client_environment(*life, random_of_client()), volume(), params(),
      client_scheme(params(), sealing_key(), random_of_client()), std::move(former));
  life->opening = true;
  const auto run_it = [](Cluster& cluster, std::shared_ptr<Life> begun, bool stored,
                         std::function<void(Result<Rebuilt>)> then) -> Task<void> {
    Rebuild& rebuild = static_cast<Rebuilder&>(*begun->job).rebuild;
    Result<Rebuilt> rebuilt = fail(Errc::failed, "the rebuild did not run");
    Status free;
    if (stored) free = ClientState::check_free(cluster.database(), *begun->disk);
    if (free)
      rebuilt = co_await rebuild.run(std::chrono::seconds(20));
    else
      rebuilt = fail(free.error());
    if (rebuilt && stored && !begun->dead) {
      const Status made = ClientState::create(cluster.database(), rebuilt->state,
                                              cluster.params().evict_every, *begun->disk);
      if (!made) rebuilt = fail(made.error());
    }
    begun->opening = false;
    if (begun->dead) co_return;
    begun->job.reset();
    begun->port.reset();
    then(std::move(rebuilt));
  };
  const bool stored = how == Rebuilding::in_place;
  spawn(context.get_executor(), run_it(*this, life, stored, std::move(done)));
}

Result<Rebuilt> Cluster::rebuild_client(Rebuilding how) {
  std::optional<Result<Rebuilt>> result;
  const auto life = client();
  begin_rebuild_client([&](Result<Rebuilt> rebuilt) { result.emplace(std::move(rebuilt)); }, how);
  run_until([&] { return result.has_value() || life->dead; });
  if (!result) return fail(Errc::failed, "the client lost its power during the rebuild");
  return std::move(*result);
}

void Cluster::begin_restore_client(std::function<void(Status)> done) {
  begin_rebuild_client([done = std::move(done)](const Result<Rebuilt>& rebuilt) {
    // A life that has ended since may have made it.
    const bool there = !rebuilt && rebuilt.error().code == Errc::exists;
    done(rebuilt || there ? Status{} : fail(rebuilt.error()));
  });
}

void Cluster::begin_reenrol(std::set<Party> lost, std::function<void(Status)> done) {
  const auto life = client();
  life->port = network.attach(kClient);
  auto state = open_state(*life, done);
  if (!state) return;
  life->job = std::make_unique<Reenroller>(client_environment(*life, random_of_client()), volume(),
                                           params(), std::move(*state));
  life->opening = true;
  const auto run_it = [](std::shared_ptr<Life> begun, std::set<Party> reenrolled,
                         std::function<void(Status)> then) -> Task<void> {
    Reenrolment& reenrolment = static_cast<Reenroller&>(*begun->job).reenrolment;
    auto status = co_await reenrolment.run(std::move(reenrolled), std::chrono::seconds(20));
    begun->opening = false;
    if (begun->dead) co_return;
    begun->job.reset();  // closes the database, which may cut the power
    if (begun->dead) co_return;
    begun->port.reset();
    then(std::move(status));
  };
  spawn(context.get_executor(), run_it(life, std::move(lost), std::move(done)));
}

Status Cluster::reenrol(std::set<Party> lost) {
  std::optional<Status> result;
  const auto life = client();
  begin_reenrol(std::move(lost), [&](Status status) { result.emplace(std::move(status)); });
  run_until([&] { return result.has_value() || life->dead; });
  if (!result) return fail(Errc::failed, "the client lost its power during the re-enrolment");
  return std::move(*result);
}

}  // namespace s3oram::test
