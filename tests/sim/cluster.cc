#include "tests/sim/cluster.h"

#include <spdlog/spdlog.h>

#include "oramcore/schemes/registry.h"
#include "serverd/schemes.h"
#include "tests/sim/sim_vfs.h"

namespace s3oram::test {
namespace {

constexpr Duration kMostTime = std::chrono::hours(2);            // limit for one run_until()
constexpr std::uint64_t kServerMemory = std::uint64_t{1} << 30;  // enough for small trees
// As few buckets as a server can work with, so that it reads its disk all the time.
constexpr std::size_t kServerCache = 1;

Seed seed_of(std::uint64_t number) {
  Seed seed{};
  for (int i = 0; i < 8; ++i) seed[i] = static_cast<std::uint8_t>(number >> (8 * i));
  return seed;
}

}  // namespace

Cluster::Life::~Life() {
  engine.reset();
  rebuild.reset();
  reenrolment.reset();
  server.reset();
  companion.reset();
  port.reset();
}

Cluster::Cluster(const VolumeParams& params, std::uint64_t seed)
    : params_(params),
      random_(seed_of(seed), as_bytes("cluster")),
      clock(context),
      network(context.get_executor(), &clock, random_.u64(), &trace),
      pool(random_.u64()) {
  seed_sqlite(random_.u64());
  random_.fill(volume_);
  random_.fill(key_);
  page_key_ = std::make_shared<PageKey>(
      key_, std::make_unique<Prg>(seed_of(seed), as_bytes("nonces of pages")));
  for (Party party = kClient; party <= servers(); ++party) {
    clocks_.push_back(std::make_unique<SimClock>(clock));
    parties_.push_back(
        new_life(std::make_unique<SimDisk>(DiskImage{}, random_.u64(), &trace), party));
    if (party != kClient) start_server(party);
  }
  auto port = network.attach(kClient);
  Servers setup(context.get_executor(), clock, random_, *port, volume_, servers());
  require(run(setup.create(params, std::chrono::seconds(60))));
  require(ClientState::create(database(), params.first_height, disk(kClient)));
}

Cluster::~Cluster() {
  try {
    end();
  } catch (const std::logic_error& error) {
    // The run that would have found this has already failed. A call that hangs is left as it is.
    for (const auto& life : ghosts_)
      spdlog::critical("party {} does not end ({}{}): {}", life->party,
                       life->stopped ? "stopped" : "stopping", life->opening ? ", opening" : "",
                       error.what());
    new auto(std::move(ghosts_));
  }
}

void Cluster::end() {
  on_death = {};
  on_step = {};
  for (Party party = kClient; party <= servers(); ++party)
    if (runs(party)) kill(party);
  const Duration until = clock.now() + kMostTime;
  for (bury_ghosts(); !ghosts_.empty(); bury_ghosts()) {
    if (clock.now() > until) throw std::logic_error("two hours have passed");
    step();
  }
}

// ---- lives of parties

std::shared_ptr<Cluster::Life> Cluster::new_life(std::unique_ptr<SimDisk> disk, Party party) {
  auto life = std::make_shared<Life>();
  life->party = party;
  life->disk = std::move(disk);
  if (party == kClient) life->disk->seal_databases(page_key_);
  life->disk->on_cut = [this, party, &life = *life] {
    if (!life.dead) end_life(party);
  };
  life->disk->on_step = [this, party, &life = *life](std::string_view name, bool done) {
    if (life.dead) return;
    spdlog::debug("party {}: {} {}", party, done ? "persisted" : "will persist", name);
    if (on_step) on_step(party, name, done);
  };
  return life;
}

// May be called from within the dying party, so none of its code runs or is destroyed here.
void Cluster::end_life(Party party) {
  auto life = parties_[party];
  life->dead = true;
  spdlog::debug("party {}: {}", party, life->disk->is_cut() ? "its power is cut" : "is killed");
  if (life->port) network.detach(*life->port);
  parties_[party] = new_life(life->disk->next_life(), party);
  ghosts_.push_back(life);
  asio::post(context, [this, life] { stop_unseen(life); });
  if (on_death) on_death(party);
}

void Cluster::stop_unseen(std::shared_ptr<Life> life) {
  spawn(context.get_executor(), [](std::shared_ptr<Life> ghost) -> Task<void> {
    if (ghost->server) static_cast<void>(co_await ghost->server->stop());
    if (ghost->engine) static_cast<void>(co_await ghost->engine->close(false));
    if (ghost->rebuild) ghost->rebuild->stop();
    if (ghost->reenrolment) ghost->reenrolment->stop();
    ghost->stopped = true;
  }(std::move(life)));
}

void Cluster::bury_ghosts() {
  std::erase_if(ghosts_, [](const auto& life) { return life->stopped && !life->opening; });
}

void Cluster::kill(Party party) {
  if (!parties_[party]->dead) end_life(party);
}

void Cluster::cut(Party party) { parties_[party]->disk->cut(); }

bool Cluster::runs(Party party) const {
  const Life& life = *parties_[party];
  return life.server != nullptr || life.engine != nullptr || life.rebuild != nullptr ||
         life.reenrolment != nullptr;
}

void Cluster::replace_disk(Party party, const DiskImage& image) {
  parties_[party] = new_life(std::make_unique<SimDisk>(image, random_.u64(), &trace), party);
}

// ---- servers

Status Cluster::try_start_server(Party server) {
  const auto life = parties_[server];
  spdlog::debug("party {}: starts", server);
  life->port = network.attach(server);
  auto opened = ShareServer::open(
      "", server, server_scheme,
      {context.get_executor(), pool.executor(), pool.executor(), pool.executor(), clock_of(server),
       random_, *life->port, *life->disk, kServerMemory, kServerCache});
  if (life->dead) {
    // The server died while it started, and its stop has been posted.
    if (opened) life->server = std::move(*opened);
    return fail(Errc::failed, "server {} lost its power while it started", server);
  }
  if (!opened) {
    life->port.reset();
    return fail(opened.error());
  }
  life->server = std::move(*opened);
  return {};
}

Status Cluster::try_stop_server(Party server) {
  const auto life = parties_[server];
  auto status = run(life->server->stop());
  if (life->dead) return {};
  life->server.reset();
  life->port.reset();
  return status;
}

// ---- the client

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
  const auto life = parties_[kClient];
  spdlog::debug("party {}: starts", kClient);
  life->port = network.attach(kClient);
  auto state = open_state(*life, done);
  if (!state) return;
  // The executor also runs the database's work.
  const ClientEnvironment environment{context.get_executor(), context.get_executor(),
                                      pool.executor(),        clock_of(kClient),
                                      random_of_client(),     *life->port};
  life->engine =
      std::make_unique<Engine>(environment, volume_, params_,
                               client_scheme(params_, key_, random_of_client()), std::move(*state));
  if (companion) life->companion = companion(*life->engine);
  life->opening = true;
  spawn(context.get_executor(),
        [](std::shared_ptr<Life> opened, std::function<void(Status)> then) -> Task<void> {
          auto status = co_await opened->engine->open(std::chrono::seconds(20));
          opened->opening = false;
          if (!opened->dead) then(std::move(status));
        }(life, std::move(done)));
}

Status Cluster::open_client() {
  std::optional<Status> status;
  const auto life = parties_[kClient];
  begin_open_client([&](Status s) { status.emplace(std::move(s)); });
  run_until([&] { return status.has_value() || life->dead; });
  if (!status) return fail(Errc::failed, "the client lost its power while it opened the volume");
  if (!*status && life->engine) {
    static_cast<void>(run(life->engine->close(false)));
    life->engine.reset();
    life->companion.reset();
    life->port.reset();
  }
  return std::move(*status);
}

void Cluster::begin_rebuild_client(std::function<void(Result<Rebuilt>)> done, Rebuilding how) {
  const auto life = parties_[kClient];
  life->port = network.attach(kClient);
  const ClientEnvironment environment{context.get_executor(), context.get_executor(),
                                      pool.executor(),        clock_of(kClient),
                                      random_of_client(),     *life->port};
  std::optional<FormerState> former;
  if (how == Rebuilding::beside) {
    if (auto loaded = FormerState::load(database(), params_, *life->disk))
      former = std::move(*loaded);
    if (life->dead) return;
  }
  life->rebuild = std::make_unique<Rebuild>(environment, volume_, params_,
                                            client_scheme(params_, key_, random_of_client()),
                                            std::move(former));
  life->opening = true;
  const auto run_it = [](Cluster& cluster, std::shared_ptr<Life> begun, bool stored,
                         std::function<void(Result<Rebuilt>)> then) -> Task<void> {
    Result<Rebuilt> rebuilt = fail(Errc::failed, "the rebuild did not run");
    Status free;
    if (stored) free = ClientState::check_free(cluster.database(), *begun->disk);
    if (free)
      rebuilt = co_await begun->rebuild->run(std::chrono::seconds(20));
    else
      rebuilt = fail(free.error());
    if (rebuilt && stored && !begun->dead) {
      const Status made = ClientState::create(cluster.database(), rebuilt->state,
                                              cluster.params().evict_every, *begun->disk);
      if (!made) rebuilt = fail(made.error());
    }
    begun->opening = false;
    if (begun->dead) co_return;
    begun->rebuild.reset();
    begun->port.reset();
    then(std::move(rebuilt));
  };
  const bool stored = how == Rebuilding::in_place;
  spawn(context.get_executor(), run_it(*this, life, stored, std::move(done)));
}

Result<Rebuilt> Cluster::rebuild_client(Rebuilding how) {
  std::optional<Result<Rebuilt>> result;
  const auto life = parties_[kClient];
  begin_rebuild_client([&](Result<Rebuilt> rebuilt) { result.emplace(std::move(rebuilt)); }, how);
  run_until([&] { return result.has_value() || life->dead; });
  if (!result) return fail(Errc::failed, "the client lost its power during the rebuild");
  return std::move(*result);
}

void Cluster::begin_reenrol(std::set<Party> lost, std::function<void(Status)> done) {
  const auto life = parties_[kClient];
  life->port = network.attach(kClient);
  auto state = open_state(*life, done);
  if (!state) return;
  life->state = std::make_unique<ClientState>(std::move(*state));
  const ClientEnvironment environment{context.get_executor(), context.get_executor(),
                                      pool.executor(),        clock_of(kClient),
                                      random_of_client(),     *life->port};
  life->reenrolment = std::make_unique<Reenrolment>(environment, volume_, params_, *life->state, 5);
  life->opening = true;
  const auto run_it = [](std::shared_ptr<Life> begun, std::set<Party> reenrolled,
                         std::function<void(Status)> then) -> Task<void> {
    auto status = co_await begun->reenrolment->run(std::move(reenrolled), std::chrono::seconds(20));
    begun->opening = false;
    if (begun->dead) co_return;
    begun->reenrolment.reset();
    begun->state.reset();  // this writes, and so may cut the power
    if (begun->dead) co_return;
    begun->port.reset();
    then(std::move(status));
  };
  spawn(context.get_executor(), run_it(life, std::move(lost), std::move(done)));
}

Status Cluster::reenrol(std::set<Party> lost) {
  std::optional<Status> result;
  const auto life = parties_[kClient];
  begin_reenrol(std::move(lost), [&](Status status) { result.emplace(std::move(status)); });
  run_until([&] { return result.has_value() || life->dead; });
  if (!result) return fail(Errc::failed, "the client lost its power during the re-enrolment");
  return std::move(*result);
}

Status Cluster::close_client() {
  const auto life = parties_[kClient];
  auto status = run(life->engine->close());
  if (life->dead) return fail(Errc::failed, "the client lost its power while it closed the volume");
  life->engine.reset();
  life->companion.reset();
  life->port.reset();
  return status;
}

// ---- operations

Result<Bytes> Cluster::read(BlockId block) {
  std::optional<Result<Bytes>> result;
  engine().read(block, [&](Result<Bytes> r) { result.emplace(std::move(r)); });
  run_until([&] { return result.has_value(); });
  return std::move(*result);
}

Status Cluster::write(BlockId block, Bytes content) {
  std::optional<Status> result;
  engine().write(block, std::move(content), [&](Status s) { result.emplace(std::move(s)); });
  run_until([&] { return result.has_value(); });
  return std::move(*result);
}

Status Cluster::commit() {
  std::optional<Status> result;
  engine().commit([&](Status s) { result.emplace(std::move(s)); });
  run_until([&] { return result.has_value(); });
  return std::move(*result);
}

void Cluster::run_until(const std::function<bool()>& done) {
  const Duration until = clock.now() + kMostTime;
  while (!done()) {
    if (clock.now() > until)
      throw std::logic_error("two hours have passed, but the condition does not hold");
    step();
  }
}

void Cluster::step() {
  bury_ghosts();
  context.restart();
  if (pool.toss() && pool.run_one(false)) return;
  if (context.poll_one() != 0 || pool.run_one(true)) return;
  if (!clock.advance())
    throw std::logic_error("nothing left to do, but the condition does not hold");
}

void Cluster::settle() {
  context.restart();
  while (context.poll_one() != 0 || pool.run_one(true)) context.restart();
}

Bytes pattern(BlockId block, std::uint64_t generation, std::size_t size) {
  Bytes content(size);
  std::uint64_t state = block * 0x9e3779b97f4a7c15u + generation * 0xbf58476d1ce4e5b9u + 1;
  for (auto& byte : content) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::uint8_t>(state >> 56);
  }
  return content;
}

}  // namespace s3oram::test
