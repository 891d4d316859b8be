// The simulator's facilities for tests: deaths, clocks, the network, and companions of the client.
#include "tests/sim/cluster.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <set>

namespace s3oram {
namespace {

using namespace std::chrono_literals;
using test::Cluster;
using test::pattern;

const VolumeParams kParams{{1, 3}, 512, 6, 2};

TEST(SimClock, RunsAtItsOwnRateAndJumps) {
  asio::io_context context;
  test::FastClock truth(context);
  test::SimClock clock(truth);
  std::vector<int> called;
  clock.set_rate(2);
  clock.call_after(10s, [&] { called.push_back(1); });
  clock.call_after(100s, [&] { called.push_back(2); });
  const auto pass = [&](Duration until) {
    while (truth.now() < until && truth.advance()) {
      context.restart();
      context.poll();
    }
  };
  truth.call_after(5s + 1ms, [] {});
  pass(5s + 1ms);
  EXPECT_EQ(called, std::vector<int>{1}) << "10 seconds are 5 true ones";
  EXPECT_NEAR(std::chrono::duration<double>(clock.now()).count(), 10, 0.01);
  clock.jump(89s);
  truth.call_after(1s, [] {});
  pass(truth.now() + 1s);
  EXPECT_EQ(called, (std::vector<int>{1, 2})) << "timers follow the jumping clock";
  clock.set_rate(0.5);
  const Duration before = clock.now();
  truth.call_after(10s, [] {});
  pass(truth.now() + 10s);
  EXPECT_NEAR(std::chrono::duration<double>(clock.now() - before).count(), 5, 0.01);
}

TEST(Network, LosesDoublesAndReorders) {
  asio::io_context context;
  test::FastClock clock(context);
  test::Network network(context.get_executor(), &clock, 1);
  const auto from = network.attach(kClient), to = network.attach(1);
  std::vector<int> received;
  to->on_message([&](Party, const Bytes& message) { received.push_back(message[0]); });
  std::size_t seen = 0;
  network.observer = [&](Party, Party, const Bytes&) { ++seen; };
  const auto send_all = [&] {
    received.clear();
    for (std::uint8_t i = 0; i < 100; ++i) from->send(1, Bytes{i});
    do {
      context.restart();
      context.poll();
    } while (clock.advance());
  };
  send_all();
  EXPECT_EQ(received.size(), 100u);
  EXPECT_TRUE(std::is_sorted(received.begin(), received.end()));
  network.faults.lost = 0.5;
  send_all();
  EXPECT_GT(received.size(), 20u);
  EXPECT_LT(received.size(), 80u);
  network.faults = {.lost = 0, .doubled = 0.5, .late = 0};
  send_all();
  EXPECT_GT(received.size(), 120u);
  network.faults = {.lost = 0, .doubled = 0, .late = 0.5};
  send_all();
  EXPECT_EQ(received.size(), 100u);
  EXPECT_FALSE(std::is_sorted(received.begin(), received.end()));
  EXPECT_EQ(seen, 400u);
}

class ClusterTest : public testing::Test {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }
  void TearDown() override { cluster_.end(); }
  Cluster cluster_{kParams, 1};
};

TEST_F(ClusterTest, ThePowerGoesAtANamedStep) {
  ASSERT_OK(cluster_.open_client());
  std::set<Party> died;
  cluster_.on_death = [&](Party party) { died.insert(party); };
  cluster_.on_step = [&](Party party, std::string_view name, bool done) {
    if (party == 2 && name == "slots" && !done) cluster_.cut(2);
  };
  cluster_.engine().write(1, pattern(1, 1, 512), [](Status) {});
  cluster_.run_until([&] { return !died.empty(); });
  cluster_.settle();
  EXPECT_EQ(died, std::set<Party>{2});
  EXPECT_FALSE(cluster_.runs(2));
  EXPECT_TRUE(cluster_.runs(1));
  cluster_.on_step = {};
  cluster_.start_server(2);
  auto content = cluster_.read(1);
  ASSERT_OK(content);
  EXPECT_EQ(*content, pattern(1, 1, 512)) << "the access went on with the server's new life";
  cluster_.step();
  EXPECT_EQ(cluster_.ghosts(), 0u);
}

TEST_F(ClusterTest, WhatWasNeverWrittenIsNotRead) {
  const auto restarted = [&] {
    cluster_.stop_server(1);
    cluster_.start_server(1);
    return cluster_.disk(1).file_reads();
  };
  const auto access = [&] {
    ASSERT_OK(cluster_.read(1));
    cluster_.settle();
  };
  ASSERT_OK(cluster_.open_client());
  ASSERT_OK(cluster_.write(1, pattern(1, 1, 512)));
  std::uint64_t before = restarted();
  access();  // a retrieval and, as A = 2, the first eviction, of a tree without content
  EXPECT_EQ(cluster_.disk(1).file_reads(), before);
  before = restarted();
  access();
  const std::uint64_t read = cluster_.disk(1).file_reads() - before;
  EXPECT_GT(read, 0u) << "the eviction's buckets are only on the disk";
  EXPECT_LE(read, kParams.stash_buckets() + 2) << "no bucket is read twice";
}

// A participant in the client's commits lives as long as the engine and its ghost.
TEST_F(ClusterTest, CompanionsLiveAsLongAsTheEngine) {
  struct Participant final : CommitParticipant {
    explicit Participant(int& living) : living_(++living) {}
    ~Participant() override { --living_; }
    std::function<Status(Database&)> snapshot() override {
      return [](Database& database) {
        return database.execute("CREATE TABLE IF NOT EXISTS companion (x)");
      };
    }
    void committed(const Status& outcome) override { commits += outcome.has_value(); }
    int commits = 0;
    int& living_;
  };
  int living = 0;
  Participant* newest = nullptr;
  cluster_.companion = [&](VolumeEngine& engine) {
    auto participant = std::make_shared<Participant>(living);
    newest = participant.get();
    engine.set_participant(newest);
    return participant;
  };
  ASSERT_OK(cluster_.open_client());
  ASSERT_OK(cluster_.commit());
  EXPECT_GE(newest->commits, 1);
  cluster_.engine().write(1, pattern(1, 1, 512), [](Status) {});
  cluster_.kill_client();
  EXPECT_EQ(living, 1) << "of the ghost";
  ASSERT_OK(cluster_.open_client());
  while (cluster_.ghosts() > 0) cluster_.step();
  EXPECT_EQ(living, 1) << "of the new life";
  ASSERT_OK(cluster_.close_client());
  EXPECT_EQ(living, 0);
  auto database = Database::open(cluster_.database().string(), Database::Mode::read_only,
                                 cluster_.disk(kClient));
  ASSERT_OK(database);
  EXPECT_TRUE(database->prepare("SELECT x FROM companion"));
}

TEST_F(ClusterTest, NothingIsLostToAFailedSync) {
  ASSERT_OK(cluster_.open_client());
  cluster_.disk(3).fail_next_sync();
  ASSERT_OK(cluster_.write(1, pattern(1, 1, 512)));
  for (BlockId block = 2; block < 12; ++block)
    ASSERT_OK(cluster_.write(block, pattern(block, 1, 512)));
  ASSERT_OK(cluster_.commit());
  for (Party party = kClient; party <= 3; ++party) cluster_.cut(party);
  for (Party server = 1; server <= 3; ++server) cluster_.start_server(server);
  ASSERT_OK(cluster_.open_client());
  for (BlockId block = 1; block < 12; ++block) {
    auto content = cluster_.read(block);
    ASSERT_OK(content);
    EXPECT_EQ(*content, pattern(block, 1, 512));
  }
}

}  // namespace
}  // namespace s3oram
