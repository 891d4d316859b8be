// Tests what an answer promises, and power cuts at every durable step of either party.
#include <gtest/gtest.h>

#include <iostream>
#include <optional>
#include <set>

#include "tests/schemes/ring/sim/point_watch.h"
#include "tests/schemes/ring/sim/ring_driver.h"
#include "tests/sim/ledger.h"

namespace s3oram::ring::test {
namespace {

using s3oram::test::Ledger;

// The server's power is cut when a write is answered, and the client is lost with its cache.
TEST(RingAnswered, AWriteSurvivesThePowerCutOfTheServer) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    RingWorld world(small_ring(4, 3, 1), seed);
    ASSERT_GOOD(world.open_client());
    for (BlockId block = 0; block < 10; ++block)
      ASSERT_GOOD(world.write(block, pattern(block, 1, 512)));
    world.settle();
    bool answered = false;
    world.engine().write(3, pattern(3, 2, 512), [&](Status status) {
      EXPECT_TRUE(status);
      world.cut(kServer);
      answered = true;
    });
    world.run_until([&] { return answered; });
    world.kill(kClient);
    world.settle();
    world.start_server();
    world.lose_client();
    ASSERT_GOOD(world.rebuild_client());
    ASSERT_GOOD(world.open_client());
    for (BlockId block = 0; block < 10; ++block) {
      const auto got = world.read(block);
      ASSERT_GOOD(got);
      EXPECT_EQ(*got, pattern(block, block == 3 ? 2 : 1, 512)) << "block " << block;
    }
  }
}

// The client's power is cut when it has asked. Afterwards it asks for the same again, because the
// record was committed before.
TEST(RingAnswered, NothingIsAskedBeforeItsRecordIsCommitted) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    RingWorld world(small_ring(4, 3, 1), seed);
    PointWatch watch;
    bool has_asked = false;
    world.network.observer = [&](Party from, Party to, const Bytes& message) {
      watch.saw(from, to, message);
      has_asked |= is_question(message) && type_of(message) == MessageType::retrieve;
    };
    world.on_death = [&](Party party) {
      if (party == kClient) watch.client_died();
    };
    ASSERT_GOOD(world.open_client());
    for (BlockId block = 0; block < 10; ++block)
      ASSERT_GOOD(world.write(block, pattern(block, 1, 512)));
    ASSERT_GOOD(world.commit());
    world.settle();
    has_asked = false;
    world.engine().read(seed, [](Result<Bytes>) {});
    world.run_until([&] { return has_asked; });
    world.cut(kClient);
    world.settle();
    ASSERT_GOOD(world.open_client());
    EXPECT_EQ(watch.opened(), "");
    const auto got = world.read(seed);
    ASSERT_GOOD(got);
    EXPECT_EQ(*got, pattern(seed, 1, 512));
    world.on_death = {};
    world.network.observer = {};
  }
}

struct Cut {
  Party party;
  std::string step;
  bool done;
  auto operator<=>(const Cut&) const = default;
};

/// A volume to cut, and its use.
struct CutShape {
  const char* name;
  VolumeParams params;
  std::uint64_t seeds;  // for each cell
  BlockId blocks;       // before the cut
  bool grows = false;   // ever more blocks are written, so that the tree grows
};

/// Works until the power is cut at this step, and then recovers.
class CutCell {
 public:
  CutCell(const CutShape& shape, const Cut& cut, std::uint64_t seed)
      : world_(shape.params, seed),
        ledger_(512),
        cut_(cut),
        grows_(shape.grows),
        blocks_(shape.blocks) {}

  /// Returns whether the step was reached.
  bool run() {
    start();
    write_all();
    commit();
    height_ = world_.engine().status().height;
    arm();
    for (unsigned i = 0; i < 60 && !hit_; ++i) {
      write(grows_ ? blocks_++ : i * 7 % blocks_);
      if (!hit_ && i % 5 == 0) commit();
      if (i % 20 == 19 && !hit_ && world_.runs(kClient)) reopen();
    }
    world_.on_step = {};
    recover();
    check_all();
    write_all();
    check_all();
    grew_ = world_.engine().status().height > height_;
    return hit_;
  }
  bool grew() const { return grew_; }
  std::set<std::pair<Party, std::string>> seen;

 private:
  void start() {
    while (!world_.runs(kServer)) static_cast<void>(world_.try_start_server());
    ASSERT_GOOD(world_.open_client());
  }
  void arm() {
    world_.on_step = [this](Party party, std::string_view name, bool done) {
      seen.emplace(party, name);
      if (hit_ || party != cut_.party || name != cut_.step || done != cut_.done) return;
      hit_ = true;
      world_.cut(party);
    };
  }
  void recover() {
    if (world_.runs(kClient)) world_.kill(kClient);
    ledger_.crashed();
    world_.settle();
    start();
  }
  void reopen() {
    world_.kill(kClient);
    ledger_.crashed();
    while (!world_.runs(kServer)) static_cast<void>(world_.try_start_server());
    std::optional<Status> opened;
    world_.begin_open_client([&](Status status) { opened.emplace(std::move(status)); });
    wait([&] { return opened.has_value(); });
  }
  void wait(const std::function<bool()>& done) {
    world_.run_until([&] {
      if (!world_.runs(kServer)) static_cast<void>(world_.try_start_server());
      return done() || !world_.runs(kClient);
    });
  }
  void write(BlockId block) {
    if (!world_.runs(kClient)) return;
    Bytes content = pattern(block, ++generation_, 512);
    const auto number = ledger_.wrote(block, content);
    auto written = std::make_shared<std::optional<Status>>();
    world_.engine().write(block, std::move(content),
                          [written](Status status) { written->emplace(std::move(status)); });
    wait([&] { return written->has_value(); });
    if (written->has_value() && **written && world_.runs(kClient))
      ledger_.acknowledged(block, number);
  }
  void commit() {
    if (!world_.runs(kClient)) return;
    const auto covers = ledger_.snapshot();
    auto done = std::make_shared<std::optional<Status>>();
    world_.engine().commit([done](Status status) { done->emplace(std::move(status)); });
    wait([&] { return done->has_value(); });
    if (done->has_value() && **done && world_.runs(kClient)) ledger_.committed(covers);
  }
  void write_all() {
    for (BlockId block = 0; block < blocks_; ++block) write(block);
  }
  void check_all() {
    for (BlockId block = 0; block < blocks_; ++block) {
      const auto got = world_.read(block);
      ASSERT_GOOD(got);
      EXPECT_TRUE(ledger_.may_be(block, *got)) << "block " << block;
    }
  }

  RingWorld world_;
  Ledger ledger_;
  const Cut cut_;
  const bool grows_;
  BlockId blocks_;
  bool hit_ = false, grew_ = false;
  unsigned height_ = 0;
  std::uint64_t generation_ = 0;
};

class RingCuts : public testing::TestWithParam<CutShape> {};

// Every durable step of either party, with the power cut right before and right after it.
TEST_P(RingCuts, AtEveryStepLoseNothingThatWasCommitted) {
  const CutShape& shape = GetParam();
  CutCell whole(shape, {kServer, "none", false}, 1);
  EXPECT_FALSE(whole.run());
  EXPECT_EQ(whole.grew(), shape.grows);
  EXPECT_GE(whole.seen.size(), 9u);
  std::size_t reached = 0;
  for (const auto& [party, step] : whole.seen)
    for (const bool done : {false, true})
      for (std::uint64_t seed = 1; seed <= shape.seeds; ++seed) {
        SCOPED_TRACE(fmt::format("{} {} {}, seed {}", party == kClient ? "client" : "server", step,
                                 done ? "done" : "not yet done", seed));
        reached += CutCell(shape, {party, step, done}, seed).run();
        ASSERT_FALSE(HasFailure());
      }
  const std::size_t cells = whole.seen.size() * 2 * shape.seeds;
  std::cout << reached << " of " << cells << " cells cut at " << whole.seen.size() << " steps\n";
  EXPECT_EQ(reached, cells);
}

INSTANTIATE_TEST_SUITE_P(Shapes, RingCuts,
                         testing::Values(CutShape{"usual", small_ring(4, 3, 1), 3, 20},
                                         CutShape{"two_top_levels", small_ring(8, 6, 2), 1, 20},
                                         CutShape{"least", small_ring(2, 1, 1), 1, 12},
                                         CutShape{"growing", small_ring(4, 3, 1), 1, 4, true}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace s3oram::ring::test
