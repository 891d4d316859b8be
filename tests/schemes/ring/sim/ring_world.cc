// The successive lives of a ring's client and server in a simulation.
#include "tests/schemes/ring/sim/ring_world.h"

#include "tests/sim/sim_vfs.h"

namespace s3oram::ring::test {
namespace {

constexpr Duration kMostTime = std::chrono::hours(2);
constexpr std::uint64_t kMemory = std::uint64_t{1} << 30;

/// A file in which some places cannot be written.
class PartlyBadFile final : public File {
 public:
  PartlyBadFile(std::unique_ptr<File> file, const std::function<bool(std::uint64_t)>& takes)
      : file_(std::move(file)), takes_(takes) {}
  Status read(std::uint64_t offset, MutableByteSpan out) override {
    return file_->read(offset, out);
  }
  Status write(std::uint64_t offset, ByteSpan data) override {
    if (takes_ && !takes_(offset)) return fail(Errc::failed, "a bad place of the disk");
    return file_->write(offset, data);
  }
  Status sync() override { return file_->sync(); }
  Status reserve(std::uint64_t size) override { return file_->reserve(size); }
  Result<std::uint64_t> size() override { return file_->size(); }
  Status truncate(std::uint64_t size) override { return file_->truncate(size); }

 private:
  const std::unique_ptr<File> file_;
  const std::function<bool(std::uint64_t)>& takes_;
};

Seed seed_of(std::uint64_t number) {
  Seed seed{};
  for (int i = 0; i < 8; ++i) seed[i] = static_cast<std::uint8_t>(number >> (8 * i));
  return seed;
}

}  // namespace

RingWorld::Life::~Life() {
  engine.reset();
  server.reset();
  port.reset();
}

RingWorld::RingWorld(const VolumeParams& params, std::uint64_t seed)
    : params_(params),
      random_(seed_of(seed), as_bytes("ring world")),
      clock(context),
      network(context.get_executor(), &clock, random_.u64()),
      pool(random_.u64()) {
  s3oram::test::seed_sqlite(random_.u64());
  random_.fill(volume_);
  random_.fill(key_);
  for (const Party party : {kClient, kServer}) {
    clocks_.push_back(std::make_unique<SimClock>(clock));
    parties_.push_back(new_life(std::make_unique<SimDisk>(DiskImage{}, random_.u64()), party));
  }
  start_server();
  auto port = network.attach(kClient);
  Servers setup(context.get_executor(), clock, random_, *port, volume_, 1);
  require(run(setup.create(params_, std::chrono::seconds(60))));
  require(RingState::create("vault.db", params_.first_height, disk(kClient)));
}

RingWorld::~RingWorld() {
  on_death = {};
  on_step = {};
  for (const Party party : {kClient, kServer})
    if (runs(party)) kill(party);
  for (bury_ghosts(); !ghosts_.empty(); bury_ghosts()) step();
}

std::shared_ptr<RingWorld::Life> RingWorld::new_life(std::unique_ptr<SimDisk> disk, Party party) {
  auto life = std::make_shared<Life>();
  life->disk = std::move(disk);
  life->disk->on_cut = [this, party, &life = *life] {
    if (!life.dead) end_life(party);
  };
  life->disk->on_step = [this, party, &life = *life](std::string_view name, bool done) {
    if (!life.dead && on_step) on_step(party, name, done);
  };
  return life;
}

// May be called from within the dying party, so none of its code runs or is destroyed here.
void RingWorld::end_life(Party party) {
  auto life = parties_[party];
  life->dead = true;
  if (life->port) network.detach(*life->port);
  parties_[party] = new_life(life->disk->next_life(), party);
  ghosts_.push_back(life);
  asio::post(context, [this, life] {
    spawn(context.get_executor(), [](std::shared_ptr<Life> ghost) -> Task<void> {
      if (ghost->server) static_cast<void>(co_await ghost->server->stop());
      if (ghost->engine) static_cast<void>(co_await ghost->engine->close(false));
      ghost->stopped = true;
    }(life));
  });
  if (on_death) on_death(party);
}

void RingWorld::bury_ghosts() {
  std::erase_if(ghosts_, [](const auto& life) { return life->stopped && !life->opening; });
}

void RingWorld::kill(Party party) {
  if (!parties_[party]->dead) end_life(party);
}

bool RingWorld::runs(Party party) const {
  return parties_[party]->server != nullptr || parties_[party]->engine != nullptr;
}

Status RingWorld::try_start_server() {
  const auto life = parties_[kServer];
  life->port = network.attach(kServer);
  auto opened =
      Server::open("", kServer,
                   {context.get_executor(), pool.executor(), pool.executor(), pool.executor(),
                    *clocks_[kServer], random_, *life->port, *life->disk, kMemory, 1});
  if (life->dead) {
    if (opened) life->server = std::move(*opened);
    return fail(Errc::failed, "the server lost its power while it started");
  }
  if (!opened) {
    life->port.reset();
    return fail(opened.error());
  }
  life->server = std::move(*opened);
  return {};
}

Status RingWorld::stop_server() {
  const auto life = parties_[kServer];
  auto status = run(life->server->stop());
  if (life->dead) return {};
  life->server.reset();
  life->port.reset();
  return status;
}

void RingWorld::begin_open_client(std::function<void(Status)> done) {
  const auto life = parties_[kClient];
  life->port = network.attach(kClient);
  auto state = RingState::open("vault.db", *life->disk);
  if (life->dead) return;
  auto cache = state ? life->disk->open("top.cache") : Result<std::unique_ptr<File>>();
  if (life->dead) return;
  if (!state || !cache) {
    asio::post(context,
               [done, error = !state ? state.error() : cache.error()] { done(fail(error)); });
    life->port.reset();
    return;
  }
  const ClientEnvironment environment{context.get_executor(),
                                      context.get_executor(),
                                      pool.executor(),
                                      *clocks_[kClient],
                                      random_,
                                      *life->port};
  life->engine =
      std::make_unique<RingEngine>(environment, volume_, params_, key_, std::move(*state),
                                   std::make_unique<PartlyBadFile>(std::move(*cache), cache_takes));
  life->opening = true;
  spawn(context.get_executor(),
        [](std::shared_ptr<Life> opened, std::function<void(Status)> then) -> Task<void> {
          auto status = co_await opened->engine->open(std::chrono::seconds(20));
          opened->opening = false;
          if (!opened->dead) then(std::move(status));
        }(life, std::move(done)));
}

Status RingWorld::open_client() {
  std::optional<Status> status;
  const auto life = parties_[kClient];
  begin_open_client([&](Status s) { status.emplace(std::move(s)); });
  run_until([&] { return status.has_value() || life->dead; });
  if (!status) return fail(Errc::failed, "the client lost its power while it opened the volume");
  if (!*status && life->engine) {
    static_cast<void>(run(life->engine->close(false)));
    life->engine.reset();
    life->port.reset();
  }
  return std::move(*status);
}

Status RingWorld::close_client() {
  const auto life = parties_[kClient];
  auto status = run(life->engine->close());
  if (life->dead) return fail(Errc::failed, "the client lost its power while it closed the volume");
  life->engine.reset();
  life->port.reset();
  return status;
}

void RingWorld::lose_client() {
  parties_[kClient] = new_life(std::make_unique<SimDisk>(DiskImage{}, random_.u64()), kClient);
}

Result<RingRebuild::Rebuilt> RingWorld::rebuild_client(RingRebuild::Asked asked) {
  SimDisk& disk = *parties_[kClient]->disk;
  const auto port = network.attach(kClient);
  S3O_ASSIGN(const auto cache, disk.open("top.cache"));
  const ClientEnvironment environment{context.get_executor(),
                                      context.get_executor(),
                                      pool.executor(),
                                      *clocks_[kClient],
                                      random_,
                                      *port};
  RingRebuild rebuild(environment, volume_, params_, key_, *cache, {}, asked);
  auto rebuilt = run(rebuild.run(std::chrono::seconds(20)));
  if (!rebuilt) return rebuilt;
  S3O_TRY(RingState::create("vault.db", params_.first_height, disk));
  S3O_ASSIGN(auto state, RingState::open("vault.db", disk));
  S3O_TRY(state.put_all(rebuilt->state));
  return rebuilt;
}

Result<Bytes> RingWorld::read(BlockId block) {
  std::optional<Result<Bytes>> result;
  engine().read(block, [&](Result<Bytes> r) { result.emplace(std::move(r)); });
  run_until([&] { return result.has_value(); });
  return std::move(*result);
}

Status RingWorld::write(BlockId block, Bytes content) {
  std::optional<Status> result;
  engine().write(block, std::move(content), [&](Status s) { result.emplace(std::move(s)); });
  run_until([&] { return result.has_value(); });
  return std::move(*result);
}

Status RingWorld::commit() {
  std::optional<Status> result;
  engine().commit([&](Status s) { result.emplace(std::move(s)); });
  run_until([&] { return result.has_value(); });
  return std::move(*result);
}

void RingWorld::run_until(const std::function<bool()>& done) {
  const Duration until = clock.now() + kMostTime;
  while (!done()) {
    if (clock.now() > until)
      throw std::logic_error("two hours have passed, but the condition does not hold");
    step();
  }
}

void RingWorld::pass(Duration time) {
  const auto sleep = [](Clock& of, Duration how_long) -> Task<Status> {
    co_await of.sleep(how_long);
    co_return Status{};
  };
  require(run(sleep(clock, time)));
}

void RingWorld::step() {
  bury_ghosts();
  context.restart();
  if (pool.toss() && pool.run_one(false)) return;
  if (context.poll_one() != 0 || pool.run_one(true)) return;
  if (!clock.advance())
    throw std::logic_error("nothing left to do, but the condition does not hold");
}

void RingWorld::settle() {
  context.restart();
  while (context.poll_one() != 0 || pool.run_one(true)) context.restart();
}

VolumeParams small_ring(std::uint16_t bucket_size, std::uint16_t evict_every,
                        std::uint8_t top_levels, std::uint8_t first_height) {
  return {.scheme = {0, 1},
          .block_size = 512,
          .bucket_size = bucket_size,
          .evict_every = evict_every,
          .evictor = Evictor::polynomial,
          .privacy = Privacy::computational,
          .first_height = std::max(first_height, top_levels),
          .top_levels = top_levels};
}

Bytes pattern(BlockId block, std::uint64_t generation, std::size_t size) {
  Bytes content(size);
  Prg(seed_of(generation << 20 ^ block), as_bytes("pattern")).fill(content);
  return content;
}

}  // namespace s3oram::ring::test
