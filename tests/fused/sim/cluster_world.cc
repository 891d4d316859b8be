// Connects the simulated file system to a simulated client and its servers.
#include "tests/fused/sim/cluster_world.h"

#include <algorithm>
#include <set>
#include <utility>

#include "oramcore/protocol/bounds.h"
#include "tests/harness/volumes.h"
#include "tests/schemes/ring/sim/ring_world.h"
#include "tests/sim/cluster.h"

namespace s3oram::sim {
namespace {

constexpr std::uint64_t kServerLives = 400;  // steps, on average
// Two deaths in a row would take longer than operations wait, because messages are sent again ever
// more rarely. And for a minute after an operation has failed, others wait for less time.
constexpr auto kCalm = std::chrono::seconds(10), kCalmAfterTrouble = std::chrono::seconds(70);

VolumeParams s3oram_of(std::uint64_t seed) {
  const auto evict_every = static_cast<std::uint16_t>(2 + seed % 3);
  if (seed % 2 == 0) return test::matrix_volume(min_bucket_size(evict_every, 20), evict_every);
  // In some seeds buckets overflow now and then.
  const auto bucket_size = static_cast<std::uint16_t>(2 + seed / 2 % 4);
  return {.scheme = {1, 3},
          .bucket_size = bucket_size,
          .evict_every = evict_every,
          .evictor = Evictor::shuffle,
          .stash_slots = static_cast<std::uint16_t>(bucket_size * (1 + seed / 8 % 3)),
          .privacy = Privacy::computational};
}

VolumeParams mirror_of(std::uint64_t seed) {
  constexpr Scheme kMirrors[] = {{1, 3}, {1, 2}, {1, 3}, {2, 4}, {2, 3}};
  VolumeParams params = s3oram_of(2 * seed + 1);
  params.scheme = kMirrors[seed % std::size(kMirrors)];
  params.evictor = Evictor::selection;
  return params;
}

VolumeParams ring_of(std::uint64_t seed) {
  using ring::test::small_ring;
  switch (seed % 6) {
    case 0:
      return small_ring(8, 6, 2);
    case 1:
      return small_ring(2, 1, 1);
    case 2:
      return small_ring(8, 6, 1, 4);
    case 3:
      return small_ring(16, 12, 3);
    default:
      return small_ring(4, 3, static_cast<std::uint8_t>(1 + seed % 2));
  }
}

VolumeParams params_of(std::uint64_t seed, SchemeKind scheme, std::uint32_t block_size) {
  VolumeParams params = scheme == SchemeKind::ring     ? ring_of(seed)
                        : scheme == SchemeKind::mirror ? mirror_of(seed)
                                                       : s3oram_of(seed);
  params.block_size = block_size;
  return params;
}

std::unique_ptr<test::SimWorld> make_cluster(const VolumeParams& params, std::uint64_t seed) {
  if (params.is_ring()) return std::make_unique<ring::test::RingWorld>(params, seed);
  return std::make_unique<test::Cluster>(params, seed);
}

}  // namespace

/// The engine as the file system sees it, until the client dies; later calls are ignored.
class ClusterWorld::Device final : public BlockDevice, public CommitParticipant {
 public:
  explicit Device(VolumeEngine& engine) : engine_(engine) { engine_.set_participant(this); }

  void die() { alive_ = false; }
  const std::string& misuse() const { return misuse_; }

  std::uint32_t block_size() const override { return engine_.block_size(); }
  std::vector<BlockId> mapped() override { return engine_.mapped(); }
  std::uint64_t steps() const override { return engine_.steps(); }
  Room room() override { return engine_.room(); }
  void set_participant(CommitParticipant* participant) override { participant_ = participant; }
  void read(BlockId block, std::function<void(Result<Bytes>)> done) override {
    engine_.read(block, [this, done = std::move(done)](Result<Bytes> content) {
      if (alive_) done(std::move(content));
    });
  }
  void write(BlockId block, Bytes content, std::function<void(Status)> done) override {
    if (!writing_.insert(block).second) misuse_ = "two writes of one block at once";
    if (discarded_.contains(block))
      misuse_ = "a block number is reused before its freeing has committed";
    engine_.write(block, std::move(content), [this, block, done = std::move(done)](Status status) {
      writing_.erase(block);
      if (alive_) done(std::move(status));
    });
  }
  void write_backup(BlockId block, Bytes content, std::function<void(Status)> done) override {
    write(block, std::move(content), std::move(done));
  }
  void discard(BlockId block) override {
    if (writing_.contains(block)) misuse_ = "a discard of a block that is being written";
    discarded_.insert(block);
    engine_.discard(block);
  }
  void commit(std::function<void(Status)> done) override {
    engine_.commit([this, done = std::move(done)](Status status) {
      if (alive_) done(std::move(status));
    });
  }

  std::function<Status(Database&)> snapshot() override {
    covered_ = discarded_;
    told_ = alive_ && participant_ != nullptr;
    return told_ ? participant_->snapshot() : std::function<Status(Database&)>();
  }
  void committed(const Status& outcome) override {
    if (outcome)
      for (const BlockId block : covered_) discarded_.erase(block);
    if (alive_ && told_) participant_->committed(outcome);
  }

 private:
  VolumeEngine& engine_;
  CommitParticipant* participant_ = nullptr;
  bool alive_ = true, told_ = false;
  std::set<BlockId> writing_, discarded_, covered_;
  std::string misuse_;
};

ClusterWorld::ClusterWorld(std::uint64_t seed, const WorldKind& kind, std::uint32_t block_size)
    : World(seed),
      servers_die_(kind.servers_die),
      cluster_(make_cluster(params_of(seed, kind.scheme, block_size), seed)) {
  cluster_->companion = [this](VolumeEngine& engine) {
    device_ = std::make_shared<Device>(engine);
    return device_;
  };
  cluster_->network.filter = [this](Party from, Party to, const Bytes& message) {
    if (trouble() != Trouble::silent || (from != kClient && to != kClient)) return true;
    held_.push_back({from, to, message});
    return false;
  };
  cluster_->on_death = [this](Party party) {
    if (party == kClient && device_) device_->die();
  };
}

ClusterWorld::~ClusterWorld() {
  if (device_) device_->die();
  cluster_->end();
}

/// The servers are silent as if they were stopped: they get every message later, and so does the
/// client.
void ClusterWorld::set_trouble(Trouble trouble) {
  World::set_trouble(trouble);
  if (trouble == Trouble::silent) return;
  for (Message& each : std::exchange(held_, {}))
    cluster_->network.deliver(each.from, each.to, std::move(each.content));
}

void ClusterWorld::power_off() {
  on_ = false;
  held_.clear();
  if (victim_ != kClient) {
    cluster_->disk(victim_).never_cut();
    calm_until_ = now() + kCalm;
  }
  victim_ = kClient;
  if (!cluster_->runs(kClient)) return;
  switch (dice.below(3)) {
    case 0:
      cluster_->kill(kClient);
      break;
    case 1:
      cluster_->cut(kClient);
      break;
    default:
      for (Party party = kClient; party <= cluster_->servers(); ++party) cluster_->cut(party);
  }
}

void ClusterWorld::power_on() {
  for (Party server = 1; server <= cluster_->servers(); ++server)
    if (!cluster_->runs(server)) cluster_->start_server(server);
  test::Cluster::require(cluster_->open_client());
  on_ = true;
}

BlockDevice& ClusterWorld::device() { return *device_; }

void ClusterWorld::check_use() {
  if (device_ && !device_->misuse().empty())
    throw Violation("the device was misused: " + device_->misuse());
}

/// Lets one server at a time die, and starts it again.
void ClusterWorld::trouble_servers() {
  if (trouble() != Trouble::none) calm_until_ = now() + kCalmAfterTrouble;
  if (victim_ == kClient) {
    if (now() >= calm_until_ && dice.one_in(kServerLives)) begin_death();
  } else if (!back_) {
    if (cluster_->runs(victim_)) return;
    const std::uint64_t most = may_be_long_ ? 30'000 : 1'500;
    back_ = now() + std::chrono::milliseconds(dice.between(1, most));
  } else if (now() >= *back_) {
    cluster_->start_server(victim_);
    victim_ = kClient;
    calm_until_ = now() + kCalm;
  }
}

void ClusterWorld::begin_death() {
  const VolumeParams& params = cluster_->params();
  victim_ = static_cast<Party>(dice.between(1, cluster_->servers()));
  back_.reset();
  may_be_long_ = params.is_mirror() && cluster_->servers() > params.workers() && all_in_step();
  switch (dice.below(3)) {
    case 0:
      return cluster_->kill(victim_);
    case 1:
      return cluster_->cut(victim_);
    default:
      cluster_->disk(victim_).cut_after(dice.between(1, 30));
  }
}

bool ClusterWorld::all_in_step() {
  const EngineStatus status = cluster_->volume_engine().status();
  return std::all_of(status.servers.begin(), status.servers.end(),
                     [](const auto& server) { return server.standing == Standing::in_step; });
}

void ClusterWorld::run_event(Time until) {
  if (servers_die_ && on_) trouble_servers();
  if (cut_in > 0 && dice.one_in(1'000)) cluster_->disk(kClient).cut_after(dice.between(1, 30));
  if (wakes_ <= now() || wakes_ > until) {
    wakes_ = until;
    cluster_->clock.call_after(until - now(), [] {});
  }
  cluster_->step();
  if (on_ && !cluster_->runs(kClient)) throw Cut{};
}

}  // namespace s3oram::sim
