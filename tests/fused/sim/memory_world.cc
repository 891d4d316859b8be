// Answers the file system late, out of order or with errors, as its contract allows.
#include "tests/fused/sim/memory_world.h"

#include "oramcore/base/rules.h"

namespace s3oram::sim {
namespace {

/// Throws if there is an error, because a world cannot exist without its database.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace

class MemoryWorld::Device final : public BlockDevice {
 public:
  explicit Device(MemoryWorld& world) : world_(world), newest_(world.durable_) {
    database_ = must(Database::open(world.database_, Database::Mode::create));
    commit_unasked();
  }

  std::uint32_t block_size() const override { return world_.block_size_; }
  void set_participant(CommitParticipant* participant) override { participant_ = participant; }
  std::vector<BlockId> mapped() override {
    std::vector<BlockId> blocks;
    for (const auto& [block, content] : newest_) blocks.push_back(block);
    return blocks;
  }

  void read(BlockId block, std::function<void(Result<Bytes>)> done) override {
    const auto found = newest_.find(block);
    Bytes content = found == newest_.end() ? Bytes(block_size()) : found->second;
    answer([this, block, content = std::move(content), done = std::move(done)] {
      if (world_.trouble_ == Trouble::reads_fail)
        done(fail(Errc::corrupt, "block {} fails on demand", block));
      else
        done(content);
    });
  }

  void write(BlockId block, Bytes content, std::function<void(Status)> done) override {
    if (content.size() != block_size()) misuse_ = "a write of the wrong size";
    if (!writing_.insert(block).second) misuse_ = "two writes of one block at once";
    if (discarded_.contains(block))
      misuse_ = "a block number is reused before its freeing has committed";
    newest_[block] = content;
    answer([this, block, content = std::move(content), done = std::move(done)] {
      writing_.erase(block);
      if (world_.trouble_ == Trouble::writes_fail)
        return done(fail(Errc::unreachable, "block {} fails on demand", block));
      if (world_.trouble_ == Trouble::full)
        return done(fail(Errc::disk_full, "no room for block {}", block));
      uncommitted_[block] = content;
      done({});
    });
  }

  void write_backup(BlockId block, Bytes content, std::function<void(Status)> done) override {
    write(block, std::move(content), std::move(done));
  }
  void discard(BlockId block) override {
    if (writing_.contains(block)) misuse_ = "a discard of a block that is being written";
    discarded_.insert(block);
    uncommitted_[block] = std::nullopt;
    newest_.erase(block);
  }

  void commit(std::function<void(Status)> done) override {
    asked_.push_back(std::move(done));
    if (!committing_) begin_commit();
  }

  const std::string& misuse() const { return misuse_; }

 private:
  using Changes = std::map<BlockId, std::optional<Bytes>>;

  /// Runs `event` at some later time, but not while the device is silent.
  void answer(std::function<void()> event) {
    world_.after(1, 40, [this, event = std::move(event)] {
      if (world_.trouble_ == Trouble::silent)
        answer(event);
      else
        event();
    });
  }

  /// Commits without being asked, as an eviction does.
  void commit_unasked() {
    world_.after(20, 2'000, [this] {
      commit([](const Status&) {});
      commit_unasked();
    });
  }

  void begin_commit() {
    committing_ = true;
    world_.after(0, 5, [this] {
      auto asked = std::exchange(asked_, {});
      auto changes = std::exchange(uncommitted_, {});
      auto covered = discarded_;
      auto participate = participant_ ? participant_->snapshot() : nullptr;
      answer([this, asked = std::move(asked), changes = std::move(changes),
              covered = std::move(covered), participate = std::move(participate)] {
        const Status outcome = transact(participate);
        if (outcome) {
          if (rule_holds(Rule::one_transaction)) make_durable(changes);
          for (const BlockId block : covered) discarded_.erase(block);
        } else {
          uncommitted_.insert(changes.begin(), changes.end());
        }
        // The commit is durable, but nobody knows it yet.
        world_.after(0, 5, [this, asked, changes, outcome, tell = participate != nullptr] {
          if (outcome && !rule_holds(Rule::one_transaction)) make_durable(changes);
          if (tell) participant_->committed(outcome);
          for (const auto& done : asked) done(outcome);
          committing_ = false;
          if (!asked_.empty()) begin_commit();
        });
      });
    });
  }

  void make_durable(const Changes& changes) {
    for (const auto& [block, content] : changes)
      if (content)
        world_.durable_[block] = *content;
      else
        world_.durable_.erase(block);
  }

  Status transact(const std::function<Status(Database&)>& participate) {
    if (!participate) return {};
    S3O_TRY(database_.begin());
    Status outcome = participate(database_);
    if (outcome && world_.trouble_ == Trouble::commits_fail)
      outcome = fail(Errc::failed, "the commit fails on demand");
    if (outcome) return database_.commit("commit");
    database_.rollback();
    return outcome;
  }

  MemoryWorld& world_;
  CommitParticipant* participant_ = nullptr;
  Database database_;
  std::map<BlockId, Bytes> newest_;
  Changes uncommitted_;  // acknowledged
  std::set<BlockId> writing_, discarded_;
  std::vector<std::function<void(Status)>> asked_;
  bool committing_ = false;
  std::string misuse_;
};

MemoryWorld::MemoryWorld(std::uint64_t seed, const std::filesystem::path& folder,
                         std::uint32_t block_size)
    : World(seed), database_((folder / "vault.db").string()), block_size_(block_size) {}

MemoryWorld::~MemoryWorld() = default;

void MemoryWorld::power_off() {
  events_.clear();
  device_.reset();
}

void MemoryWorld::power_on() { device_ = std::make_unique<Device>(*this); }

BlockDevice& MemoryWorld::device() { return *device_; }

std::size_t MemoryWorld::mapped() { return device_->mapped().size(); }

void MemoryWorld::check_use() {
  if (!device_->misuse().empty()) throw Violation("the device was misused: " + device_->misuse());
}

void MemoryWorld::after(std::uint64_t least_ms, std::uint64_t most_ms,
                        std::function<void()> event) {
  events_.emplace(now_ + std::chrono::milliseconds(dice.between(least_ms, most_ms)),
                  std::move(event));
}

void MemoryWorld::run_event(Time until) {
  if (events_.empty() || events_.begin()->first > until) {
    now_ = std::max(now_, until);
    return;
  }
  now_ = std::max(now_, events_.begin()->first);
  const auto event = std::move(events_.begin()->second);
  events_.erase(events_.begin());
  event();
}

}  // namespace s3oram::sim
