// Tests parts of a ring's engine without the engine and without a server: the blocks of the top in
// top.cache, and the order in which accesses get their turns.
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "oramcore/schemes/ring/client/sealed_block.h"
#include "oramcore/schemes/ring/client/turns.h"
#include "tests/base/good.h"
#include "tests/harness/memory_file.h"
#include "tests/schemes/ring/sim/ring_world.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_disk.h"

namespace s3oram::ring::test {
namespace {

class RingParts : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GOOD(RingState::create("vault.db", params_.first_height, disk_));
    auto state = RingState::open("vault.db", disk_);
    ASSERT_GOOD(state);
    committer_.emplace(ring_, std::move(*state));
    growing_.emplace(ring_, *committer_);
    capacity_.emplace(*growing_, ring_.servers, clock_, params_.evict_every);
    rewriter_.emplace(ring_, *committer_, *capacity_, top_, top_sync_, Seed{});
    turns_.emplace(ring_, refill_, *rewriter_,
                   [this](Turn turn, BlockId block) { own_turns_.emplace_back(turn, block); });
  }

  void TearDown() override {
    ring_.die({Errc::shutting_down, "the test ends"});
    poll();
  }

  /// Runs what can run without time passing.
  void poll() {
    context_.restart();
    context_.poll();
  }
  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    spawn(context_.get_executor(), [](Task<T> inner, std::optional<T>& out) -> Task<void> {
      out.emplace(co_await std::move(inner));
    }(std::move(task), result));
    poll();
    while (!result && clock_.advance()) poll();
    return std::move(*result);
  }
  Task<bool> sync() {
    co_await top_sync_.sync();
    co_return top_sync_.trouble().empty();
  }
  /// Starts to reserve a turn.
  void reserve(BlockId block) {
    spawn(context_.get_executor(), [](RingParts& test, BlockId of) -> Task<void> {
      auto turn = co_await test.turns_->reserve(of);
      if (turn) test.reserved_.emplace_back(*turn, of);
    }(*this, block));
    poll();
  }
  /// Puts a block into the top, as the write of a turn.
  Place put(BlockId block, Turn turn, std::uint64_t version) {
    Place place{.kind = Place::Kind::top,
                .version = version,
                .cache_slot = ring_.cache.take(),
                .turn = turn};
    const Label label{.block = block, .version = version, .leaf = 0, .backup = false};
    const Bytes sealed =
        sealed_block(ring_.sealer, label, pattern(block, version, params_.block_size));
    RingWorld::require(run(top_.write(place.cache_slot, sealed)));
    ring_.set_place(block, place);
    return place;
  }

  const VolumeParams params_ = small_ring(4, 3, 1);
  asio::io_context context_;
  s3oram::test::FastClock clock_{context_};
  s3oram::test::Network network_{context_.get_executor(), &clock_};
  std::unique_ptr<Transport> port_ = network_.attach(kClient);
  Prg random_{Seed{}, as_bytes("ring parts")};
  s3oram::test::SimDisk disk_{s3oram::test::DiskImage{}, 1};
  std::shared_ptr<s3oram::test::MemoryDisk> file_ = std::make_shared<s3oram::test::MemoryDisk>();
  OpenRing ring_{{context_.get_executor(), context_.get_executor(), context_.get_executor(), clock_,
                  random_, *port_},
                 {},
                 params_,
                 {},
                 s3oram::test::memory_file(file_),
                 [this](Task<void> task) { spawn(context_.get_executor(), std::move(task)); }};
  TopBlocks top_{ring_};
  TopRefill refill_{ring_, top_};
  TopSync top_sync_{ring_, top_, refill_};
  std::optional<RingCommitter> committer_;
  std::optional<GrowingRing> growing_;
  std::optional<Capacity> capacity_;
  std::optional<Rewriter> rewriter_;
  std::optional<Turns> turns_;
  std::vector<std::pair<Turn, BlockId>> reserved_, own_turns_;
};

TEST_F(RingParts, ABlockOfTheTopIsReadWhereItWasWritten) {
  const Place place = put(7, 0, 5);
  const auto found = run(top_.read(7, place));
  ASSERT_GOOD(found);
  EXPECT_EQ(found->content, pattern(7, 5, params_.block_size));
  Place older = place;
  older.version = 4;
  EXPECT_EQ(run(top_.read(7, older)).error().code, Errc::corrupt);
}

TEST_F(RingParts, ASlotIsNotFreedWhileItIsRead) {
  const Place place = put(7, 0, 5);
  ring_.cache.hold(place.cache_slot);
  ring_.set_place(7, {});
  EXPECT_TRUE(ring_.cache.begin_commit().empty());
  ASSERT_GOOD(run(top_.read_held(7, place)));
  EXPECT_EQ(ring_.cache.begin_commit(), std::set<CacheSlot>{place.cache_slot});
}

TEST_F(RingParts, ASyncMakesWhatIsAcknowledgedDurable) {
  for (Turn turn = 0; turn < 3; ++turn) top_.note_logged(turn, 100 + turn);
  ring_.tree.written = 2;
  ASSERT_TRUE(run(sync()));
  EXPECT_EQ(ring_.tree.synced, 2u);
  EXPECT_FALSE(top_.logged(1));
  EXPECT_EQ(top_.logged(2), 102u);
  EXPECT_EQ(ring_.pending.logged.at(1), std::nullopt);
  file_->fail_syncs = true;
  ring_.tree.written = 3;
  EXPECT_FALSE(run(sync()));
  EXPECT_EQ(ring_.tree.synced, 2u) << "the log still has the block";
}

TEST_F(RingParts, TurnsAreOfDifferentBlocksAndWaitForEvictions) {
  reserve(1);
  EXPECT_TRUE(reserved_.empty()) << "the volume is not open";
  turns_->open();
  reserve(1);
  reserve(2);
  using Reserved = std::vector<std::pair<Turn, BlockId>>;
  EXPECT_EQ(reserved_, (Reserved{{0, 1}, {1, 2}})) << "block 1 is accessed already";
  turns_->release(1);
  poll();
  EXPECT_EQ(reserved_.back(), (std::pair<Turn, BlockId>{2, 1}));
  const Turn end = ring_.params.end_turn(0);
  for (BlockId block = 10; block < 10 + end; ++block) reserve(block);
  EXPECT_EQ(reserved_.back().first, end - 1);
  EXPECT_EQ(ring_.next_turn, end) << "no eviction is done";
}

TEST_F(RingParts, ATurnLogsTheOldestBlockAgainBeforeItsSlotIsReused) {
  put(5, 0, 1);
  put(6, 1, 2);
  const Turn due = ring_.params.log_slots - ring_.params.log_again_within();
  EXPECT_EQ(turns_->to_log_again(due - 1, kNoBlock), std::nullopt);
  EXPECT_EQ(turns_->to_log_again(due, kNoBlock), 5u);
  EXPECT_EQ(turns_->to_log_again(due, 5), std::nullopt) << "the access logs it itself";
  EXPECT_EQ(turns_->to_log_again(due + 1, 5), 6u);
  EXPECT_EQ(turns_->to_log_again(kMaintenanceEvery - 1, kNoBlock), 5u);
  const Turn last = ring_.params.log_slots;  // the last turn that can log block 5 again
  EXPECT_EQ(turns_->to_log_again(last, 5), 5u) << "block 6 is due, too, but has more time";
  EXPECT_EQ(turns_->to_log_again(last + 1, 5), 6u);
}

TEST_F(RingParts, ATurnOfMaintenanceBelongsToTheClientWhateverIsDue) {
  EXPECT_EQ(turns_->to_log_again(kMaintenanceEvery - 2, 5), std::nullopt);
  EXPECT_EQ(turns_->to_log_again(kMaintenanceEvery - 1, 5), kNoBlock);
  put(6, kMaintenanceEvery - 2, 1);
  EXPECT_EQ(turns_->to_log_again(kMaintenanceEvery - 1, 5), 6u);
}

}  // namespace
}  // namespace s3oram::ring::test
