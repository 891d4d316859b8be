// The successive lives of a client with two volumes, and their servers.
#include "tests/sim/migration_world.h"

#include <stdexcept>

#include "oramcore/client/servers.h"
#include "oramcore/schemes/registry.h"
#include "tests/sim/cluster.h"
#include "tests/sim/sim_vfs.h"

namespace s3oram::test {
namespace {

constexpr Duration kMostTime = std::chrono::hours(24);
constexpr std::uint64_t kMemory = std::uint64_t{1} << 30;

Seed seed_from(std::uint64_t number) {
  Seed seed{};
  for (int i = 0; i < 8; ++i) seed[i] = static_cast<std::uint8_t>(number >> (8 * i));
  return seed;
}

tl::unexpected<Error> died() { return fail(Errc::failed, "the client lost its power"); }

template <class T>
void require(const T& result) {
  if (!result) throw std::runtime_error(result.error().message);
}

}  // namespace

/// Commits the generation of each block, as the file system commits its rows.
class MigrationWorld::Rows final : public CommitParticipant {
 public:
  void set(BlockId block, std::optional<std::uint64_t> generation) { pending_[block] = generation; }
  std::function<Status(Database&)> snapshot() override {
    committing_ = std::exchange(pending_, {});
    return [rows = committing_](Database& database) -> Status {
      S3O_ASSIGN(auto put, database.prepare("INSERT OR REPLACE INTO names VALUES (?, ?)"));
      S3O_ASSIGN(auto erase, database.prepare("DELETE FROM names WHERE block = ?"));
      for (const auto& [block, generation] : rows) {
        const auto key = static_cast<std::int64_t>(block);
        S3O_TRY(generation ? put.bind(0, key).bind(1, static_cast<std::int64_t>(*generation)).run()
                           : erase.bind(0, key).run());
      }
      return {};
    };
  }
  void committed(const Status& outcome) override {
    if (!outcome) pending_.merge(committing_);
    committing_.clear();
  }

 private:
  std::map<BlockId, std::optional<std::uint64_t>> pending_, committing_;
};

MigrationWorld::Life::~Life() {
  engines[kFrom].reset();
  engines[kTo].reset();
  device.reset();
}

MigrationWorld::MigrationWorld(const VolumeParams& from, const VolumeParams& to, std::uint64_t seed)
    : random_(seed_from(seed), as_bytes("migration world")), pool_(random_.u64()) {
  seed_sqlite(random_.u64());
  life_ = new_life(std::make_unique<SimDisk>(DiskImage{}, random_.u64()));
  make(kFrom, from);
  make(kTo, to);
}

MigrationWorld::~MigrationWorld() {
  on_step = {};
  filter = {};
  if (runs()) end_life();
  const auto buried = [this] {
    std::erase_if(ghosts_, [](const auto& life) { return life->stopped && !life->opening; });
    return ghosts_.empty();
  };
  run_until(buried);
  for (Volume& volume : volumes_)
    for (const auto& server : volume.servers) static_cast<void>(run(server->server->stop()));
}

void MigrationWorld::make(Side side, const VolumeParams& params) {
  Volume& made = volumes_[side];
  made.volume.params = params;
  made.volume.directory = side == kFrom ? "from" : "to";
  random_.fill(made.volume.id);
  random_.fill(made.volume.sealing);
  made.network = std::make_unique<Network>(context_.get_executor(), &clock_, random_.u64());
  made.network->filter = [this, side](Party from, Party, const Bytes& message) {
    return from != kClient || !filter || filter(side, message);
  };
  for (Party server = 1; server <= params.scheme.servers; ++server) {
    made.servers.push_back(std::make_unique<Server>(random_.u64(), made.network->attach(server)));
    Server& life = *made.servers.back();
    auto opened =
        open_server("", server,
                    {context_.get_executor(), pool_.executor(), pool_.executor(), pool_.executor(),
                     clock_, random_, *life.port, life.disk, kMemory, 1});
    require(opened);
    life.server = std::move(*opened);
  }
  const auto port = made.network->attach(kClient);
  Servers setup(context_.get_executor(), clock_, random_, *port, made.volume.id,
                params.scheme.servers);
  require(run(setup.create(params, std::chrono::seconds(60))));
  require(volume_kind(params).create(made.volume, disk()));
  require(set_rows(side, {}));
}

// ---- lives of the client

std::shared_ptr<MigrationWorld::Life> MigrationWorld::new_life(std::unique_ptr<SimDisk> disk) {
  auto life = std::make_shared<Life>();
  life->disk = std::move(disk);
  life->disk->on_cut = [this, &life = *life] {
    if (!life.dead) end_life();
  };
  life->disk->on_step = [this, &life = *life](std::string_view name, bool done) {
    if (!life.dead && on_step) on_step(name, done);
  };
  return life;
}

// May be called from within the dying client, so none of its code runs or is destroyed here.
void MigrationWorld::end_life() {
  const auto life = life_;
  life->dead = true;
  for (const Side side : {kFrom, kTo})
    if (life->ports[side]) volumes_[side].network->detach(*life->ports[side]);
  life_ = new_life(life->disk->next_life());
  ghosts_.push_back(life);
  asio::post(context_, [this, life] {
    spawn(context_.get_executor(), [](std::shared_ptr<Life> ghost) -> Task<void> {
      static_cast<void>(co_await close_engines(ghost, false));
      ghost->stopped = true;
    }(life));
  });
}

Task<Status> MigrationWorld::close_engines(std::shared_ptr<Life> life, bool with_commit) {
  if (life->device) life->device->stop_copying();
  Status closed;
  for (const Side side : {kTo, kFrom}) {
    if (!life->engines[side]) continue;
    Status status = co_await life->engines[side]->close(with_commit);
    if (closed) closed = std::move(status);
  }
  if (life->device) co_await life->device->close();
  co_return closed;
}

Status MigrationWorld::make_engine(Side side) {
  const auto life = life_;
  Volume& volume = volumes_[side];
  life->ports[side] = volume.network->attach(kClient);
  const ClientEnvironment environment{
      context_.get_executor(), context_.get_executor(), pool_.executor(), clock_, random_,
      *life->ports[side]};
  auto made = volume_kind(volume.volume.params).engine(volume.volume, environment, *life->disk);
  if (life->dead) return died();
  if (!made) return fail(made.error());
  life->engines[side] = std::move(*made);
  return {};
}

Task<Status> MigrationWorld::open_engines(std::shared_ptr<Life> life, Side to,
                                          std::optional<Side> from, std::uint64_t rate) {
  S3O_CO_TRY(co_await life->engines[to]->open(std::chrono::seconds(20)));
  if (!from) {
    life->device->serve(*life->engines[to]);
    co_return Status{};
  }
  S3O_CO_TRY(co_await life->engines[*from]->open(std::chrono::seconds(20)));
  life->device->serve(*life->engines[to], *life->engines[*from], rate);
  co_return Status{};
}

Status MigrationWorld::open(Side to, std::optional<Side> from, std::uint64_t rate) {
  const auto life = life_;
  life->rows = std::make_unique<Rows>();
  life->device = std::make_unique<MigratingDevice>(context_.get_executor(), clock_,
                                                   volumes_[to].volume.params.block_size);
  life->device->set_participant(life->rows.get());
  return go_on(to, from, rate);
}

Status MigrationWorld::go_on(Side to, std::optional<Side> from, std::uint64_t rate) {
  const auto life = life_;
  S3O_TRY(make_engine(to));
  if (from) S3O_TRY(make_engine(*from));
  std::optional<Status> opened;
  life->opening = true;
  spawn(context_.get_executor(),
        [](std::shared_ptr<Life> opening, Side now, std::optional<Side> source, std::uint64_t bound,
           std::optional<Status>& out) -> Task<void> {
          auto status = co_await open_engines(opening, now, source, bound);
          opening->opening = false;
          if (!opening->dead) out = std::move(status);
        }(life, to, from, rate, opened));
  run_until([&] { return opened || life->dead; });
  if (!opened) return died();
  if (*opened && copies_at_once) device().begin_copying();
  return *opened;
}

Status MigrationWorld::pause() {
  const auto pausing = [](Life& life) -> Task<Status> {
    S3O_CO_TRY(co_await life.device->pause(std::chrono::seconds(20)));
    S3O_CO_TRY(co_await life.device->commit_paused());
    life.device->let_go();
    for (const Side side : {kTo, kFrom}) {
      if (!life.engines[side]) continue;
      S3O_CO_TRY(co_await life.engines[side]->close());
      life.engines[side].reset();
    }
    co_return Status{};
  };
  return run(pausing(*life_));
}

Status MigrationWorld::hold() { return run(device().pause(std::chrono::seconds(20))); }

Status MigrationWorld::commit_held() { return run(device().commit_paused()); }

Status MigrationWorld::close_under_device(Side side) { return run(engine(side).close()); }

void MigrationWorld::lose_disk() {
  life_ = new_life(std::make_unique<SimDisk>(DiskImage{}, random_.u64()));
}

Status MigrationWorld::rebuild(Side side) {
  Volume& volume = volumes_[side];
  const auto port = volume.network->attach(kClient);
  const ClientEnvironment environment{
      context_.get_executor(), context_.get_executor(), pool_.executor(), clock_, random_, *port};
  S3O_ASSIGN(const auto rebuilt, run(volume_kind(volume.volume.params)
                                         .rebuild(volume.volume, environment, disk(),
                                                  {std::chrono::seconds(20), {}, false})));
  return rebuilt->store(volume.volume.database(), disk());
}

Status MigrationWorld::close() {
  const auto life = life_;
  std::optional<Status> closed;
  spawn(context_.get_executor(),
        [](std::shared_ptr<Life> closing, std::optional<Status>& out) -> Task<void> {
          auto status = co_await close_engines(closing, true);
          if (!closing->dead) out = std::move(status);
        }(life, closed));
  run_until([&] { return closed || life->dead; });
  if (!closed) return died();
  life_->engines[kFrom].reset();
  life_->engines[kTo].reset();
  life_->device.reset();
  life_->ports[kFrom].reset();
  life_->ports[kTo].reset();
  return *closed;
}

// ---- rows

std::map<BlockId, std::uint64_t> MigrationWorld::rows(Side side) {
  std::map<BlockId, std::uint64_t> found;
  auto database =
      Database::open(volumes_[side].volume.database(), Database::Mode::read_write, disk());
  require(database);
  auto row = database->prepare("SELECT block, generation FROM names");
  require(row);
  for (;;) {
    const auto more = row->step();
    require(more);
    if (!*more) return found;
    found[static_cast<BlockId>(row->integer(0))] = static_cast<std::uint64_t>(row->integer(1));
  }
}

Status MigrationWorld::set_rows(Side side, const std::map<BlockId, std::uint64_t>& rows) {
  S3O_ASSIGN(auto database,
             Database::open(volumes_[side].volume.database(), Database::Mode::read_write, disk()));
  S3O_TRY(database.execute(
      "CREATE TABLE IF NOT EXISTS names (block INTEGER PRIMARY KEY, generation INTEGER)"));
  Rows all;
  for (const auto& [block, generation] : rows) all.set(block, generation);
  return database.transact("names", [&] { return all.snapshot()(database); });
}

// ---- operations

Result<Bytes> MigrationWorld::read(BlockId block) {
  const auto life = life_;
  const auto result = std::make_shared<std::optional<Result<Bytes>>>();
  device().read(block, [result](Result<Bytes> content) { result->emplace(std::move(content)); });
  run_until([&] { return result->has_value() || life->dead; });
  if (life->dead) return died();
  return std::move(**result);
}

Status MigrationWorld::write(BlockId block, std::uint64_t generation) {
  const auto life = life_;
  const auto result = std::make_shared<std::optional<Status>>();
  device().write(block, pattern(block, generation), [=](Status status) {
    if (status) life->rows->set(block, generation);
    result->emplace(std::move(status));
  });
  run_until([&] { return result->has_value() || life->dead; });
  if (life->dead) return died();
  return std::move(**result);
}

Status MigrationWorld::commit() {
  const auto life = life_;
  const auto result = std::make_shared<std::optional<Status>>();
  device().commit([result](Status status) { result->emplace(std::move(status)); });
  run_until([&] { return result->has_value() || life->dead; });
  if (life->dead) return died();
  return std::move(**result);
}

void MigrationWorld::discard(BlockId block) {
  life_->rows->set(block, std::nullopt);
  device().discard(block);
}

Bytes MigrationWorld::pattern(BlockId block, std::uint64_t generation) const {
  return test::pattern(block, generation, volumes_[kTo].volume.params.block_size);
}

// ---- time

template <class T>
T MigrationWorld::run(Task<T> task) {
  std::optional<T> result;
  spawn(context_.get_executor(), [](Task<T> inner, std::optional<T>& out) -> Task<void> {
    out.emplace(co_await std::move(inner));
  }(std::move(task), result));
  run_until([&] { return result.has_value(); });
  return std::move(*result);
}

void MigrationWorld::run_until(const std::function<bool()>& done) {
  const Duration until = clock_.now() + kMostTime;
  while (!done()) {
    if (clock_.now() > until)
      throw std::logic_error("a day has passed, but the condition does not hold");
    step();
  }
}

void MigrationWorld::step() {
  context_.restart();
  if (context_.poll_one() != 0 || pool_.run_one(true)) return;
  if (!clock_.advance())
    throw std::logic_error("nothing left to do, but the condition does not hold");
}

void MigrationWorld::pass(Duration time) {
  const auto sleep = [](Clock& clock, Duration how_long) -> Task<Status> {
    co_await clock.sleep(how_long);
    co_return Status{};
  };
  require(run(sleep(clock_, time)));
}

}  // namespace s3oram::test
