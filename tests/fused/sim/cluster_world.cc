// Connects the simulated file system to a simulated client and its servers.
#include "tests/fused/sim/cluster_world.h"

#include <set>
#include <utility>

#include "oramcore/protocol/bounds.h"

namespace s3oram::sim {
namespace {

VolumeParams params_of(std::uint64_t seed, std::uint32_t block_size) {
  const auto evict_every = static_cast<std::uint16_t>(2 + seed % 3);
  if (seed % 2 == 0) return {{1, 3}, block_size, min_bucket_size(evict_every, 20), evict_every};
  // In some seeds buckets overflow now and then.
  const auto bucket_size = static_cast<std::uint16_t>(2 + seed / 2 % 4);
  return {.scheme = {1, 3},
          .block_size = block_size,
          .bucket_size = bucket_size,
          .evict_every = evict_every,
          .evictor = Evictor::shuffle,
          .stash_slots = static_cast<std::uint16_t>(bucket_size * (1 + seed / 8 % 3)),
          .privacy = Privacy::computational};
}

}  // namespace

/// The engine as the file system sees it, until the client dies; later calls are ignored.
class ClusterWorld::Device final : public BlockDevice, public CommitParticipant {
 public:
  explicit Device(Engine& engine) : engine_(engine) { engine_.set_participant(this); }

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
  Engine& engine_;
  CommitParticipant* participant_ = nullptr;
  bool alive_ = true, told_ = false;
  std::set<BlockId> writing_, discarded_, covered_;
  std::string misuse_;
};

ClusterWorld::ClusterWorld(std::uint64_t seed, std::uint32_t block_size)
    : World(seed), cluster_(params_of(seed, block_size), seed) {
  cluster_.companion = [this](Engine& engine) {
    device_ = std::make_shared<Device>(engine);
    return device_;
  };
  cluster_.network.filter = [this](Party from, Party to, const Bytes& message) {
    if (trouble() != Trouble::silent || (from != kClient && to != kClient)) return true;
    held_.push_back({from, to, message});
    return false;
  };
  cluster_.on_death = [this](Party party) {
    if (party == kClient && device_) device_->die();
  };
}

ClusterWorld::~ClusterWorld() {
  if (device_) device_->die();
  cluster_.end();
}

/// The servers are silent as if they were stopped: they get every message later, and so does the
/// client.
void ClusterWorld::set_trouble(Trouble trouble) {
  World::set_trouble(trouble);
  if (trouble == Trouble::silent) return;
  for (Message& each : std::exchange(held_, {}))
    cluster_.network.deliver(each.from, each.to, std::move(each.content));
}

void ClusterWorld::power_off() {
  on_ = false;
  held_.clear();
  if (!cluster_.runs(kClient)) return;
  switch (dice.below(3)) {
    case 0:
      cluster_.kill(kClient);
      break;
    case 1:
      cluster_.cut(kClient);
      break;
    default:
      for (Party party = kClient; party <= cluster_.servers(); ++party) cluster_.cut(party);
  }
}

void ClusterWorld::power_on() {
  for (Party server = 1; server <= cluster_.servers(); ++server)
    if (!cluster_.runs(server)) cluster_.start_server(server);
  test::Cluster::require(cluster_.open_client());
  on_ = true;
}

BlockDevice& ClusterWorld::device() { return *device_; }

void ClusterWorld::check_use() {
  if (device_ && !device_->misuse().empty())
    throw Violation("the device was misused: " + device_->misuse());
}

void ClusterWorld::run_event(Time until) {
  if (cut_in > 0 && dice.one_in(1'000)) cluster_.disk(kClient).cut_after(dice.between(1, 30));
  if (wakes_ <= now() || wakes_ > until) {
    wakes_ = until;
    cluster_.clock.call_after(until - now(), [] {});
  }
  cluster_.step();
  if (on_ && !cluster_.runs(kClient)) throw Cut{};
}

}  // namespace s3oram::sim
