// Opens and rebuilds the volumes of ring in a simulation.
#include "tests/schemes/ring/sim/ring_world.h"

#include <spdlog/spdlog.h>

namespace s3oram::ring::test {
namespace {

constexpr auto kDatabase = "vault.db";
constexpr auto kCache = "top.cache";

/// A file in which some places cannot be written, and that cannot always be synced.
class PartlyBadFile final : public File {
 public:
  PartlyBadFile(std::unique_ptr<File> file, SimDisk& disk, const RingWorld& world)
      : file_(std::move(file)), disk_(disk), takes_(world.cache_takes), syncs_(world.cache_syncs) {}
  Status read(std::uint64_t offset, MutableByteSpan out) override {
    return file_->read(offset, out);
  }
  Status write(std::uint64_t offset, ByteSpan data) override {
    if (takes_ && !takes_(offset)) return fail(Errc::failed, "a bad place of the disk");
    return file_->write(offset, data);
  }
  Status sync() override {
    if (syncs_ && !syncs_()) disk_.fail_next_sync();
    return file_->sync();
  }
  Status reserve(std::uint64_t size) override { return file_->reserve(size); }
  Result<std::uint64_t> size() override { return file_->size(); }
  Status truncate(std::uint64_t size) override { return file_->truncate(size); }

 private:
  const std::unique_ptr<File> file_;
  SimDisk& disk_;
  const std::function<bool(std::uint64_t)>& takes_;
  const std::function<bool()>& syncs_;
};

}  // namespace

class RingWorld::Rebuilder final : public Job {
 public:
  Rebuilder(const ClientEnvironment& environment, const RingWorld& world,
            std::unique_ptr<File> opened, RingRebuild::Asked asked)
      : cache_(std::move(opened)),
        rebuild(environment, world.volume(), world.params(), world.sealing_key(), *cache_, {},
                asked) {}
  void stop() override { rebuild.stop(); }

 private:
  const std::unique_ptr<File> cache_;

 public:
  RingRebuild rebuild;
};

RingWorld::RingWorld(const VolumeParams& params, std::uint64_t seed)
    : SimWorld(params, seed, "ring world") {
  make_volume();
  require(RingState::create(kDatabase, params.first_height, disk(kClient)));
}

Result<std::unique_ptr<ShareServer>> RingWorld::make_server(Party server,
                                                            const ServerEnvironment& environment) {
  return Server::open("", server, environment);
}

void RingWorld::begin_open_client(std::function<void(Status)> done) {
  const auto life = client();
  spdlog::debug("party {}: starts", kClient);
  life->port = network.attach(kClient);
  auto state = RingState::open(kDatabase, *life->disk);
  if (life->dead) return;
  auto cache = state ? life->disk->open(kCache) : Result<std::unique_ptr<File>>();
  if (life->dead) return;
  if (!state || !cache) {
    asio::post(context,
               [done, error = !state ? state.error() : cache.error()] { done(fail(error)); });
    life->port.reset();
    return;
  }
  life->engine = std::make_unique<RingEngine>(
      client_environment(*life, random()), volume(), params(), sealing_key(), std::move(*state),
      std::make_unique<PartlyBadFile>(std::move(*cache), *life->disk, *this));
  open_engine(life, std::move(done));
}

/// Stores what a rebuild has found. What an earlier attempt has left is replaced, because it may
/// have been cut short.
Result<RingRebuild::Rebuilt> RingWorld::stored(Result<RingRebuild::Rebuilt> rebuilt,
                                               SimDisk& disk) const {
  if (!rebuilt) return rebuilt;
  for (const auto* suffix : {"", "-wal", "-shm", "-journal"})
    disk.remove(std::string(kDatabase) + suffix);
  S3O_TRY(RingState::create(kDatabase, params().first_height, disk));
  S3O_ASSIGN(auto state, RingState::open(kDatabase, disk));
  S3O_TRY(state.put_all(rebuilt->state));
  return rebuilt;
}

Status RingWorld::begin_rebuild(RingRebuild::Asked asked,
                                std::function<void(Result<RingRebuild::Rebuilt>)> done) {
  const auto life = client();
  spdlog::debug("party {}: rebuilds its state", kClient);
  S3O_ASSIGN(auto cache, life->disk->open(kCache));
  if (life->dead) return {};
  life->port = network.attach(kClient);
  life->job = std::make_unique<Rebuilder>(client_environment(*life, random()), *this,
                                          std::move(cache), asked);
  life->opening = true;
  const auto run_it = [](RingWorld& world, std::shared_ptr<Life> begun,
                         std::function<void(Result<RingRebuild::Rebuilt>)> then) -> Task<void> {
    auto& rebuild = static_cast<Rebuilder&>(*begun->job).rebuild;
    auto rebuilt = co_await rebuild.run(std::chrono::seconds(20));
    if (!begun->dead) rebuilt = world.stored(std::move(rebuilt), *begun->disk);
    begun->opening = false;
    if (begun->dead) co_return;
    begun->job.reset();
    begun->port.reset();
    then(std::move(rebuilt));
  };
  spawn(context.get_executor(), run_it(*this, life, std::move(done)));
  return {};
}

Result<RingRebuild::Rebuilt> RingWorld::rebuild_client(RingRebuild::Asked asked) {
  std::optional<Result<RingRebuild::Rebuilt>> result;
  const auto life = client();
  S3O_TRY(begin_rebuild(
      asked, [&](Result<RingRebuild::Rebuilt> rebuilt) { result.emplace(std::move(rebuilt)); }));
  run_until([&] { return result.has_value() || life->dead; });
  if (!result) return fail(Errc::failed, "the client lost its power during the rebuild");
  return std::move(*result);
}

void RingWorld::begin_restore_client(std::function<void(Status)> done) {
  // A write that was torn while it was under way counts as lost in `damaged`, because nothing tells
  // it from one that was acknowledged. Reading the blocks shows whether anything is lost.
  const Status begun = begin_rebuild(RingRebuild::Asked::as_server_says,
                                     [done](const Result<RingRebuild::Rebuilt>& rebuilt) {
                                       done(rebuilt ? Status{} : fail(rebuilt.error()));
                                     });
  if (!begun) asio::post(context, [done, error = begun.error()] { done(fail(error)); });
}

void RingWorld::begin_reenrol(std::set<Party>, std::function<void(Status)> done) {
  asio::post(context, [done] { done(fail(Errc::unsupported, "a ring has one server")); });
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

}  // namespace s3oram::ring::test
