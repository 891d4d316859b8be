// The successive lives of the parties of a simulation.
#include "tests/sim/sim_world.h"

#include <spdlog/spdlog.h>

#include "oramcore/client/servers.h"
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

SimWorld::Life::~Life() {
  engine.reset();
  job.reset();
  server.reset();
  companion.reset();
  port.reset();
}

SimWorld::SimWorld(const VolumeParams& params, std::uint64_t seed, std::string_view name)
    : params_(params),
      random_(seed_of(seed), as_bytes(name)),
      clock(context),
      network(context.get_executor(), &clock, random_.u64(), &trace),
      pool(random_.u64()) {
  seed_sqlite(random_.u64());
  random_.fill(volume_);
  random_.fill(key_);
  page_key_ = std::make_shared<PageKey>(
      key_, std::make_unique<Prg>(seed_of(seed), as_bytes("nonces of pages")));
}

void SimWorld::make_volume() {
  for (Party party = kClient; party <= servers(); ++party) {
    clocks_.push_back(std::make_unique<SimClock>(clock));
    parties_.push_back(
        new_life(std::make_unique<SimDisk>(DiskImage{}, random_.u64(), &trace), party));
    if (party != kClient) start_server(party);
  }
  const auto port = network.attach(kClient);
  Servers setup(context.get_executor(), clock, random_, *port, volume_, servers());
  require(run(setup.create(params_, std::chrono::seconds(60))));
}

void SimWorld::end_for_good() {
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

void SimWorld::end() {
  on_death = {};
  on_step = {};
  for (Party party = kClient; party < parties_.size(); ++party)
    if (runs(party)) kill(party);
  const Duration until = clock.now() + kMostTime;
  for (bury_ghosts(); !ghosts_.empty(); bury_ghosts()) {
    if (clock.now() > until) throw std::logic_error("two hours have passed");
    step();
  }
}

// ---- lives of parties

std::shared_ptr<SimWorld::Life> SimWorld::new_life(std::unique_ptr<SimDisk> disk, Party party) {
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
void SimWorld::end_life(Party party) {
  auto life = parties_[party];
  life->dead = true;
  spdlog::debug("party {}: {}", party, life->disk->is_cut() ? "its power is cut" : "is killed");
  if (life->port) network.detach(*life->port);
  parties_[party] = new_life(life->disk->next_life(), party);
  ghosts_.push_back(life);
  asio::post(context, [this, life] { stop_unseen(life); });
  if (on_death) on_death(party);
}

void SimWorld::stop_unseen(std::shared_ptr<Life> life) {
  spawn(context.get_executor(), [](std::shared_ptr<Life> ghost) -> Task<void> {
    if (ghost->server) static_cast<void>(co_await ghost->server->stop());
    if (ghost->engine) static_cast<void>(co_await ghost->engine->close(false));
    if (ghost->job) ghost->job->stop();
    ghost->stopped = true;
  }(std::move(life)));
}

void SimWorld::bury_ghosts() {
  std::erase_if(ghosts_, [](const auto& life) { return life->stopped && !life->opening; });
}

void SimWorld::kill(Party party) {
  if (!parties_[party]->dead) end_life(party);
}

void SimWorld::cut(Party party) { parties_[party]->disk->cut(); }

bool SimWorld::runs(Party party) const {
  const Life& life = *parties_[party];
  return life.server != nullptr || life.engine != nullptr || life.job != nullptr;
}

void SimWorld::replace_disk(Party party, const DiskImage& image) {
  parties_[party] = new_life(std::make_unique<SimDisk>(image, random_.u64(), &trace), party);
}

// ---- servers

Status SimWorld::try_start_server(Party server) {
  const auto life = parties_[server];
  spdlog::debug("party {}: starts", server);
  life->port = network.attach(server);
  auto opened = make_server(
      server, {context.get_executor(), pool.executor(), pool.executor(), pool.executor(),
               clock_of(server), random_, *life->port, *life->disk, kServerMemory, kServerCache});
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

Status SimWorld::try_stop_server(Party server) {
  const auto life = parties_[server];
  auto status = run(life->server->stop());
  if (life->dead) return {};
  life->server.reset();
  life->port.reset();
  return status;
}

// ---- the client

ClientEnvironment SimWorld::client_environment(Life& life, Random& random) {
  // The executor also runs the database's work.
  return {context.get_executor(),
          context.get_executor(),
          pool.executor(),
          clock_of(kClient),
          random,
          *life.port};
}

void SimWorld::open_engine(std::shared_ptr<Life> life, std::function<void(Status)> done) {
  if (companion) life->companion = companion(*life->engine);
  life->opening = true;
  spawn(context.get_executor(),
        [](std::shared_ptr<Life> opened, std::function<void(Status)> then) -> Task<void> {
          auto status = co_await opened->engine->open(std::chrono::seconds(20));
          opened->opening = false;
          if (!opened->dead) then(std::move(status));
        }(std::move(life), std::move(done)));
}

Status SimWorld::open_client() {
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

Status SimWorld::close_client() {
  const auto life = parties_[kClient];
  auto status = run(life->engine->close());
  if (life->dead) return fail(Errc::failed, "the client lost its power while it closed the volume");
  life->engine.reset();
  life->companion.reset();
  life->port.reset();
  return status;
}

// ---- operations

Result<Bytes> SimWorld::read(BlockId block) {
  std::optional<Result<Bytes>> result;
  volume_engine().read(block, [&](Result<Bytes> r) { result.emplace(std::move(r)); });
  run_until([&] { return result.has_value(); });
  return std::move(*result);
}

Status SimWorld::write(BlockId block, Bytes content) {
  std::optional<Status> result;
  volume_engine().write(block, std::move(content), [&](Status s) { result.emplace(std::move(s)); });
  run_until([&] { return result.has_value(); });
  return std::move(*result);
}

Status SimWorld::commit() {
  std::optional<Status> result;
  volume_engine().commit([&](Status s) { result.emplace(std::move(s)); });
  run_until([&] { return result.has_value(); });
  return std::move(*result);
}

void SimWorld::run_until(const std::function<bool()>& done) {
  const Duration until = clock.now() + kMostTime;
  while (!done()) {
    if (clock.now() > until)
      throw std::logic_error("two hours have passed, but the condition does not hold");
    step();
  }
}

void SimWorld::pass(Duration time) {
  const auto sleep = [](Clock& of, Duration how_long) -> Task<Status> {
    co_await of.sleep(how_long);
    co_return Status{};
  };
  require(run(sleep(clock, time)));
}

void SimWorld::step() {
  bury_ghosts();
  context.restart();
  if (pool.toss() && pool.run_one(false)) return;
  if (context.poll_one() != 0 || pool.run_one(true)) return;
  if (!clock.advance())
    throw std::logic_error("nothing left to do, but the condition does not hold");
}

void SimWorld::settle() {
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
