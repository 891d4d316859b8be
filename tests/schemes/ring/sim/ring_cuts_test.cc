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

/// Works until the power is cut at this step, and then recovers.
class CutCell {
 public:
  CutCell(const Cut& cut, std::uint64_t seed)
      : world_(small_ring(4, 3, 1), seed), ledger_(512), cut_(cut) {}

  /// Returns whether the step was reached.
  bool run() {
    start();
    for (BlockId block = 0; block < 20; ++block) write(block);
    commit();
    arm();
    for (int i = 0; i < 60 && !hit_; ++i) {
      write(static_cast<BlockId>(i * 7 % 20));
      if (!hit_ && i % 5 == 0) commit();
      if (i % 20 == 19 && !hit_ && world_.runs(kClient)) reopen();
    }
    world_.on_step = {};
    recover();
    for (BlockId block = 0; block < 20; ++block) check(block);
    for (BlockId block = 0; block < 20; ++block) write(block);
    for (BlockId block = 0; block < 20; ++block) check(block);
    return hit_;
  }
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
  void check(BlockId block) {
    const auto got = world_.read(block);
    ASSERT_GOOD(got);
    EXPECT_TRUE(ledger_.may_be(block, *got)) << "block " << block;
  }

  RingWorld world_;
  Ledger ledger_;
  const Cut cut_;
  bool hit_ = false;
  std::uint64_t generation_ = 0;
};

// Every durable step of either party, with the power cut right before and right after it.
TEST(RingCuts, AtEveryStepLoseNothingThatWasCommitted) {
  CutCell whole({kServer, "none", false}, 1);
  EXPECT_FALSE(whole.run());
  EXPECT_GE(whole.seen.size(), 9u);
  std::size_t reached = 0;
  for (const auto& [party, step] : whole.seen)
    for (const bool done : {false, true})
      for (const std::uint64_t seed : {1, 2, 3}) {
        SCOPED_TRACE(fmt::format("{} {} {}, seed {}", party == kClient ? "client" : "server", step,
                                 done ? "done" : "not yet done", seed));
        reached += CutCell({party, step, done}, seed).run();
        ASSERT_FALSE(HasFailure());
      }
  std::cout << reached << " of " << whole.seen.size() * 6 << " cells cut at " << whole.seen.size()
            << " steps\n";
  EXPECT_EQ(reached, whole.seen.size() * 6);
}

}  // namespace
}  // namespace s3oram::ring::test
