// Mirrors of which one server is away: killed, cut off, without power or wiped. Programs do not
// notice but for a pause; the server comes back by itself, and then another one may go.
#include <random>
#include <set>

#include "oramcore/protocol/repair_messages.h"
#include "tests/sim/filled_volume.h"
#include "tests/sim/ledger.h"

namespace s3oram {
namespace {

using test::pattern;

constexpr Duration kMostPause = std::chrono::seconds(3);
constexpr Duration kLong = std::chrono::minutes(2);

enum class Absence { killed, power_cut, cut_off, wiped };
constexpr Absence kAbsences[] = {Absence::killed, Absence::power_cut, Absence::cut_off,
                                 Absence::wiped};

class AwayTest : public test::FilledVolume {
 protected:
  Standing standing(Party server) {
    return cluster_.engine().status().servers[server - 1u].standing;
  }
  bool all_in_step() {
    for (Party server = 1; server <= cluster_.servers(); ++server)
      if (standing(server) != Standing::in_step) return false;
    return true;
  }
  /// All of them for one volume, one of them for each server of the others.
  std::vector<Absence> absences_of(Party server) const {
    if (cluster_.servers() == 3u) return {std::begin(kAbsences), std::end(kAbsences)};
    return {kAbsences[(server - 1u) % std::size(kAbsences)]};
  }
  void await(const std::function<bool()>& holds) {
    const Duration until = cluster_.clock.now() + kLong;
    cluster_.run_until([&] { return holds() || cluster_.clock.now() > until; });
    ASSERT_TRUE(holds());
  }
  void go_away(Party server, Absence how) {
    if (how == Absence::cut_off)
      cluster_.network.filter = [server](Party from, Party to, const Bytes&) {
        return from != server && to != server;
      };
    else if (how == Absence::power_cut)
      cluster_.cut(server);
    else
      cluster_.kill(server);
    if (how == Absence::wiped) cluster_.lose(server);
  }
  void come_back(Party server) {
    cluster_.network.filter = {};
    // Its power may be cut while it starts.
    if (!cluster_.runs(server)) static_cast<void>(cluster_.try_start_server(server));
  }
  /// Writes and reads all blocks, several at a time. The longest that one took.
  Duration work() {
    Duration longest{};
    std::size_t under_way = 0;
    const auto ended = [&](Duration begun) {
      longest = std::max(longest, cluster_.clock.now() - begun);
      --under_way;
    };
    for (BlockId block = 0; block < kBlocks; ++block) {
      const Duration begun = cluster_.clock.now();
      ++under_way;
      const auto generation = ++generation_;
      newest_[block] = generation;
      cluster_.engine().write(block, pattern(block, generation, test::kBlockSize),
                              [&, begun](const Status& status) {
                                EXPECT_TRUE(status);
                                ended(begun);
                              });
      cluster_.run_until([&] { return under_way < 4; });
    }
    cluster_.run_until([&] { return under_way == 0; });
    for (const auto& [block, generation] : newest_) {
      const Duration begun = cluster_.clock.now();
      const auto content = cluster_.read(block);
      EXPECT_EQ(content.value_or(Bytes()), pattern(block, generation, test::kBlockSize)) << block;
      longest = std::max(longest, cluster_.clock.now() - begun);
    }
    return longest;
  }
  void expect_equal_replicas() {
    settle_evictions();
    const auto first = buckets_of(1);
    for (Party server = 2; server <= cluster_.servers(); ++server)
      EXPECT_EQ(buckets_of(server), first) << "server " << +server;
  }

  std::uint64_t generation_ = 100;
};
INSTANTIATE_TEST_SUITE_P(Volumes, AwayTest,
                         testing::Values(test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 3}),
                                         test::mirror_volume(6, 2, min_stash_slots(6, 2), {2, 4}),
                                         test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 4})),
                         [](const auto& test) {
                           return fmt::format("T{}L{}", test.param.scheme.threshold,
                                              test.param.scheme.servers);
                         });

TEST_P(AwayTest, WorkGoesOnWithoutAnyOneOfThem) {
  ASSERT_NO_FATAL_FAILURE(fill());
  for (Party server = 1; server <= cluster_.servers(); ++server)
    for (const Absence how : absences_of(server)) {
      SCOPED_TRACE(fmt::format("server {}, how {}", server, static_cast<int>(how)));
      go_away(server, how);
      EXPECT_LT(work(), kMostPause);
      EXPECT_EQ(standing(server), Standing::away);
      EXPECT_LT(work(), std::chrono::seconds(1)) << "noticed by now";
      come_back(server);
      EXPECT_LT(work(), kMostPause) << "while it catches up";
      ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
    }
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  ASSERT_OK(cluster_.close_client());
  go_on();
}

TEST_P(AwayTest, IdleVolumesNoticeItToo) {
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  go_away(2, Absence::cut_off);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(2) == Standing::away; }));
  EXPECT_LT(work(), std::chrono::seconds(1));
}

TEST_P(AwayTest, IsOpenedWithoutOneOfThem) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_OK(cluster_.close_client());
  for (Party server = 1; server <= cluster_.servers(); ++server)
    for (const Absence how : absences_of(server)) {
      SCOPED_TRACE(fmt::format("server {}, how {}", server, static_cast<int>(how)));
      go_away(server, how);
      if (how == Absence::wiped) come_back(server);
      const Duration begun = cluster_.clock.now();
      ASSERT_OK(cluster_.open_client());
      EXPECT_LT(cluster_.clock.now() - begun, std::chrono::seconds(5));
      EXPECT_LT(work(), kMostPause);
      ASSERT_OK(cluster_.close_client());
      // One that was left out, and comes back while nobody looks, is caught up.
      come_back(server);
      ASSERT_OK(cluster_.open_client());
      ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
      EXPECT_LT(work(), kMostPause);
      ASSERT_OK(cluster_.close_client());
    }
  go_on();
  expect_equal_replicas();
}

// A server that was set back cannot give what a server in step must have.
TEST_P(AwayTest, AnOldStateInStepIsRefused) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_OK(cluster_.close_client());
  cluster_.stop_server(1);
  const auto old = cluster_.disk(1).image();
  cluster_.start_server(1);
  ASSERT_OK(cluster_.open_client());
  work();
  ASSERT_OK(cluster_.close_client());
  cluster_.stop_server(1);
  cluster_.replace_disk(1, old);
  cluster_.start_server(1);
  const Status opened = cluster_.open_client();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::wrong_volume) << opened.error().message;
}

TEST_P(AwayTest, TooFewMakeItWait) {
  if (cluster_.servers() != 3u) GTEST_SKIP();
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(3, Absence::killed);
  EXPECT_LT(work(), kMostPause);
  cluster_.kill(1);
  bool written = false;
  newest_[0] = ++generation_;
  cluster_.engine().write(0, pattern(0, generation_, test::kBlockSize),
                          [&](const Status& status) { written = status.has_value(); });
  const Duration until = cluster_.clock.now() + std::chrono::minutes(1);
  cluster_.run_until([&] { return cluster_.clock.now() > until; });
  EXPECT_FALSE(written);
  come_back(1);
  ASSERT_NO_FATAL_FAILURE(await([&] { return written; }));
  come_back(3);
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  check_contents();
  expect_equal_replicas();
}

// Any party may lose its power at a step of the way out or back, before or after it is durable, and
// whether or not the client does: all are in step again later, and nothing is lost.
TEST_P(AwayTest, APowerCutAtAnyStepLosesNothing) {
  if (cluster_.servers() != 3u) GTEST_SKIP();
  struct Step {
    Party party;
    const char* name;
    Absence how;
  };
  const Step steps[] = {{kClient, "commit", Absence::killed}, {kClient, "decide", Absence::killed},
                        {2, "adopt", Absence::wiped},         {2, "rejoin", Absence::killed},
                        {2, "rejoin", Absence::wiped},        {2, "found", Absence::wiped},
                        {2, "slots", Absence::wiped},         {2, "slots", Absence::killed},
                        {2, "flip", Absence::killed},         {1, "flip", Absence::killed}};
  ASSERT_NO_FATAL_FAILURE(fill());
  unsigned cell = 0;
  for (const Step& step : steps)
    for (const bool done : {false, true}) {
      const bool both = ++cell / 2 % 2 == 1;
      SCOPED_TRACE(fmt::format("party {}, {} {}, {}", step.party, done ? "after" : "before",
                               step.name, both ? "both" : "one"));
      go_away(2, step.how);
      ASSERT_NO_FATAL_FAILURE(await([&] { return standing(2) == Standing::away; }));
      work();
      ASSERT_OK(cluster_.commit());
      bool reached = false;
      cluster_.on_step = [&](Party party, std::string_view name, bool is_done) {
        if (reached || party != step.party || name != step.name || is_done != done) return;
        reached = true;
        cluster_.cut(party);
        if (both && party != kClient) cluster_.cut(kClient);
      };
      come_back(2);
      for (BlockId block = 0; block < 3 && cluster_.runs(kClient); ++block)
        cluster_.engine().write(block, pattern(block, newest_[block], test::kBlockSize),
                                [](const Status&) {});
      if (cluster_.runs(kClient)) cluster_.engine().commit([](const Status&) {});
      ASSERT_NO_FATAL_FAILURE(
          await([&] { return reached || (cluster_.runs(kClient) && all_in_step()); }));
      cluster_.on_step = {};
      for (Party server = 1; server <= cluster_.servers(); ++server)
        if (!cluster_.runs(server)) cluster_.start_server(server);
      if (!cluster_.runs(kClient)) ASSERT_OK(cluster_.open_client());
      check_contents();
      ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
    }
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  check_contents();
}

// The server that gives a returning one its copies changes them, and then shows no digests to
// compare.
TEST_P(AwayTest, ACopyDoesNotCountOnTheWordOfItsSource) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(last, Absence::wiped);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  work();
  settle_evictions();
  unsigned lies = 0, silences = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from != 1) return true;
    const auto type = static_cast<MessageType>(message[2]);
    Bytes changed = message;
    if (to == last && is_question(message) && type == MessageType::masked_share) {
      changed[changed.size() - 30] ^= 1;
      ++lies;
    } else if (to == kClient && is_answer(message) && type == MessageType::digests) {
      auto shown = decode<DigestsAnswer>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      if (!shown) return true;
      for (SlotDigest& each : shown->slots) each.digest.clear();
      changed = encode(*shown);
      std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
      ++silences;
    } else {
      return true;
    }
    cluster_.network.deliver(from, to, changed);
    return false;
  };
  if (!cluster_.runs(last)) cluster_.start_server(last);
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  cluster_.network.filter = {};
  EXPECT_GT(lies, 0u);
  EXPECT_GT(silences, 0u);
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  check_contents();
}

// A server that is not needed refuses what it is told, with each error that there is.
TEST_P(AwayTest, NoErrorOfOneServerEndsTheVolume) {
  if (cluster_.servers() != 3u) GTEST_SKIP();
  ASSERT_NO_FATAL_FAILURE(fill());
  constexpr MessageType kTypes[] = {MessageType::write_root, MessageType::prepare,
                                    MessageType::commit, MessageType::retrieve,
                                    MessageType::certify};
  constexpr Errc kErrors[] = {Errc::failed,        Errc::stale_vault, Errc::unreachable,
                              Errc::unsupported,   Errc::fenced,      Errc::bad_request,
                              Errc::shutting_down, Errc::corrupt};
  for (const MessageType refused : kTypes)
    for (const Errc code : kErrors) {
      // Damage may be found as long as it is; an eviction waits for its healing.
      if (code == Errc::corrupt && refused != MessageType::write_root &&
          refused != MessageType::commit)
        continue;
      SCOPED_TRACE(
          fmt::format("type {}, error {}", static_cast<int>(refused), static_cast<int>(code)));
      cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
        if (from != 3 || to != kClient || !is_answer(message) || message[4] != 0 ||
            static_cast<MessageType>(message[2]) != refused)
          return true;
        Bytes refusal(message.begin(), message.begin() + Rpc::kHeaderSize);
        refusal[4] = static_cast<std::uint8_t>(code);
        cluster_.network.deliver(from, to, refusal);
        return false;
      };
      const Duration begun = cluster_.clock.now();
      work();
      EXPECT_LT(cluster_.clock.now() - begun, std::chrono::seconds(30));
      cluster_.network.filter = {};
      ASSERT_EQ(cluster_.engine().status().failure, "");
      ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
    }
  EXPECT_FALSE(cluster_.engine().status().evictions_stopped);
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
}

// The old copy knows of no session since; the server that was left out does not, either, and would
// take a session of the copy.
TEST_P(AwayTest, AnOldCopyOfTheVaultLeavesNoTraceAtAServerThatWasLeftOut) {
  if (cluster_.servers() != 3u) GTEST_SKIP();
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_OK(cluster_.close_client());
  const auto old = cluster_.disk(kClient).image();
  go_away(3, Absence::killed);
  ASSERT_OK(cluster_.open_client());
  work();
  ASSERT_OK(cluster_.close_client());
  come_back(3);
  const auto newest = cluster_.disk(kClient).image();
  cluster_.replace_disk(kClient, old);
  const Status opened = cluster_.open_client();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::stale_vault) << opened.error().message;
  cluster_.kill_client();
  cluster_.replace_disk(kClient, newest);
  ASSERT_OK(cluster_.open_client());
  check_contents();
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
}

// The copy was made in the same session, while another server was left out than later: that one
// knows of the newer write, too.
TEST_P(AwayTest, AnOldCopyOfTheVaultIsRefusedOnTheWordOfAServerThatItLeftOut) {
  if (cluster_.servers() != 3u) GTEST_SKIP();
  ASSERT_NO_FATAL_FAILURE(fill());
  const auto evictions = [&] { return cluster_.engine().status().evictions; };
  // The next write begins no eviction.
  for (auto before = evictions(); evictions() == before;) {
    ASSERT_NO_FATAL_FAILURE(write(1, ++generation_));
    settle_evictions();
  }
  go_away(3, Absence::killed);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(3) == Standing::away; }));
  ASSERT_OK(cluster_.commit());
  const auto old = cluster_.disk(kClient).image();
  const auto evictions_before = evictions();
  come_back(3);
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  go_away(2, Absence::killed);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(2) == Standing::away; }));
  ASSERT_NO_FATAL_FAILURE(write(2, ++generation_));
  ASSERT_OK(cluster_.commit());
  ASSERT_EQ(evictions(), evictions_before);
  cluster_.kill_client();
  const auto newest = cluster_.disk(kClient).image();
  come_back(2);
  cluster_.replace_disk(kClient, old);
  const Status opened = cluster_.open_client();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::stale_vault) << opened.error().message;
  cluster_.kill_client();
  cluster_.replace_disk(kClient, newest);
  ASSERT_OK(cluster_.open_client());
  check_contents();
}

// One after the other goes away at any moment and comes back, and the client dies now and then.
TEST_P(AwayTest, RandomAbsences) {
  std::mt19937_64 random(cluster_.servers());
  // Callbacks of a client that was killed come later.
  struct State {
    test::Ledger ledger{test::kBlockSize};
    std::size_t under_way = 0;
    unsigned life = 0;
  };
  const auto state = std::make_shared<State>();
  test::Ledger& ledger = state->ledger;
  ASSERT_OK(cluster_.open_client());
  const auto begin_write = [&] {
    const BlockId block = random() % kBlocks;
    auto content = pattern(block, ++generation_, test::kBlockSize);
    const auto number = ledger.wrote(block, content);
    ++state->under_way;
    cluster_.engine().write(block, std::move(content),
                            [state, block, number, life = state->life](const Status& status) {
                              if (life != state->life) return;
                              if (status) state->ledger.acknowledged(block, number);
                              --state->under_way;
                            });
  };
  for (int round = 0; round < 10; ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    const auto server = static_cast<Party>(1 + random() % cluster_.servers());
    const std::uint64_t goes = random() % 300, returns = goes + random() % 3000,
                        dies = random() % 4 == 0 ? random() % 3500 : ~std::uint64_t{0};
    for (std::uint64_t step = 0; step <= returns || step < 600; ++step) {
      if (step == goes) go_away(server, kAbsences[random() % std::size(kAbsences)]);
      if (step == returns) come_back(server);
      if (step == dies && cluster_.runs(kClient)) {
        cluster_.kill(kClient);
        ledger.crashed();
        state->under_way = 0;
        ++state->life;
        ASSERT_OK(cluster_.open_client());
      }
      if (state->under_way < 4) begin_write();
      cluster_.step();
    }
    cluster_.run_until([&] { return state->under_way == 0; });
    const auto covers = ledger.snapshot();
    ASSERT_OK(cluster_.commit());
    ledger.committed(covers);
    ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
    for (BlockId block = 0; block < kBlocks; ++block) {
      const auto content = cluster_.read(block);
      ASSERT_OK(content);
      ASSERT_TRUE(ledger.may_be(block, *content)) << "block " << block;
      ledger.is(block, *content);
    }
  }
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  expect_equal_replicas();
}

}  // namespace
}  // namespace s3oram
