// Mirrors in which one server is away: killed, cut off, without power or wiped. Programs notice
// only a pause; the server comes back without help, and then another one may go away.
#include <random>
#include <set>

#include "tests/sim/ledger.h"
#include "tests/sim/mirror_without_one.h"

namespace s3oram {
namespace {

using test::Absence;
using test::AwayOfThree;
using test::AwayTest;
using test::kAbsences;
using test::kMostPause;
using test::pattern;

std::string volume_name(const testing::TestParamInfo<VolumeParams>& test) {
  return fmt::format("T{}L{}", test.param.scheme.threshold, test.param.scheme.servers);
}

INSTANTIATE_TEST_SUITE_P(Volumes, AwayTest,
                         testing::Values(test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 3}),
                                         test::mirror_volume(6, 2, min_stash_slots(6, 2), {2, 4}),
                                         test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 4})),
                         volume_name);

INSTANTIATE_TEST_SUITE_P(Volume, AwayOfThree,
                         testing::Values(test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 3})),
                         [](const auto&) { return std::string("T1L3"); });

TEST_P(AwayTest, WorkGoesOnWithoutAnyOneOfThem) {
  ASSERT_NO_FATAL_FAILURE(fill());
  for (Party server = 1; server <= cluster_.servers(); ++server)
    for (const Absence how : absences_of(server)) {
      SCOPED_TRACE(fmt::format("server {}, how {}", server, static_cast<int>(how)));
      go_away(server, how);
      EXPECT_LT(work(), kMostPause);
      EXPECT_EQ(standing(server), Standing::away);
      EXPECT_LT(work(), std::chrono::seconds(1)) << "the absence should be noticed by now";
      come_back(server);
      EXPECT_LT(work(), kMostPause) << "while it catches up";
      ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
    }
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  ASSERT_OK(cluster_.close_client());
  go_on();
}

// What they were asked to do together with it goes on for a while, although nobody needs it.
TEST_P(AwayOfThree, TheOthersAreNotSaidToHang) {
  ASSERT_NO_FATAL_FAILURE(fill());
  for (Party server = 1; server <= cluster_.servers(); ++server)
    for (const Absence how : {Absence::killed, Absence::cut_off}) {
      SCOPED_TRACE(fmt::format("server {}, how {}", server, static_cast<int>(how)));
      std::set<Party> named;
      const auto look = [&] {
        const auto servers = cluster_.engine().status().servers;
        for (Party each = 1; each <= cluster_.servers(); ++each)
          if (servers[each - 1u].stall) named.insert(each);
      };
      go_away(server, how);
      const auto under_way = begin_writes(kBlocks);
      for (int second = 0; second < 15; ++second) {
        ask_for_traffic();
        const Duration next = cluster_.clock.now() + std::chrono::seconds(1);
        cluster_.run_until([&] { return cluster_.clock.now() >= next; });
        look();
      }
      EXPECT_EQ(*under_way, 0u);
      EXPECT_EQ(standing(server), Standing::away);
      EXPECT_TRUE(named.empty()) << "server " << +*named.begin();
      come_back(server);
      ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
    }
}

TEST_P(AwayTest, IdleVolumesNoticeItToo) {
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  go_away(2, Absence::cut_off);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(2) == Standing::away; }));
  EXPECT_LT(work(), std::chrono::seconds(1));
}

// No server answers, because the client has no line. Otherwise the first ones asked would be left
// out, and sent what they lack when the line is back.
TEST_P(AwayTest, AClientWithoutALineLeavesNobodyOut) {
  ASSERT_NO_FATAL_FAILURE(fill());
  cluster_.network.filter = [](Party from, Party to, const Bytes&) {
    return from != kClient && to != kClient;
  };
  const auto under_way = begin_writes(1);
  const Duration until = cluster_.clock.now() + std::chrono::seconds(30);
  cluster_.run_until([&] { return cluster_.clock.now() > until || !all_in_step(); });
  EXPECT_TRUE(all_in_step());
  EXPECT_EQ(*under_way, 1u);
  cluster_.network.filter = {};
  ASSERT_NO_FATAL_FAILURE(await([&] { return *under_way == 0; }));
  EXPECT_TRUE(all_in_step());
  check_contents();
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
      // A server that was left out, and comes back while the volume is closed, is caught up.
      come_back(server);
      ASSERT_OK(cluster_.open_client());
      ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
      EXPECT_LT(work(), kMostPause);
      ASSERT_OK(cluster_.close_client());
    }
  go_on();
  expect_equal_replicas();
}

TEST_P(AwayOfThree, TooFewMakeItWait) {
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(3, Absence::killed);
  EXPECT_LT(work(), kMostPause);
  cluster_.kill(1);
  const auto under_way = begin_writes(1);
  const Duration until = cluster_.clock.now() + std::chrono::minutes(1);
  cluster_.run_until([&] { return cluster_.clock.now() > until; });
  EXPECT_EQ(*under_way, 1u);
  come_back(1);
  ASSERT_NO_FATAL_FAILURE(await([&] { return *under_way == 0; }));
  come_back(3);
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  check_contents();
  expect_equal_replicas();
}

// Any party may lose its power at a step of leaving or returning, before or after it is durable,
// whether or not the client loses its power too. Later all servers are in step again, and nothing
// is lost.
TEST_P(AwayOfThree, APowerCutAtAnyStepLosesNothing) {
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

// Meanwhile no eviction is decided, and another server waits for it, too.
TEST_P(AwayOfThree, OneThatGoesAwayWhileItIsSentWhatItLacksIsNotWaitedFor) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  for (const Absence how : {Absence::killed, Absence::cut_off}) {
    SCOPED_TRACE(static_cast<int>(how));
    go_away(last, Absence::killed);
    ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
    work();
    bool copying = false;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      const bool copies = to == last && from != kClient && is_question(message) &&
                          static_cast<MessageType>(message[2]) == MessageType::masked_share;
      copying = copying || copies;
      return !copies;
    };
    cluster_.start_server(last);
    ASSERT_NO_FATAL_FAILURE(await([&] { return copying; }));
    go_away(last, how);
    EXPECT_LT(longest_of_writes(std::chrono::seconds(15)), kMostPause);
    come_back(last);
    ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
}

// A server is left out while an eviction is being installed, and is asked again before another one
// has answered.
TEST_P(AwayOfThree, OneThatIsBackBeforeTheOthersAnswerEndsNothing) {
  constexpr Party kSlow = 1;
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  bool asked = false, is_gone = false, is_back = false, opened = false;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    if (to == last && from == kClient && type == MessageType::commit && !asked)
      asked = is_gone = true;
    if (is_gone && (from == last || to == last)) return false;
    opened = opened || (is_back && from == last && is_answer(message) && type == MessageType::open);
    return opened || from != kSlow || !is_answer(message) || type != MessageType::commit;
  };
  const auto under_way = begin_writes(6);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  ASSERT_TRUE(asked);
  is_gone = false;
  is_back = true;
  ASSERT_NO_FATAL_FAILURE(await([&] { return opened; }));
  ASSERT_NO_FATAL_FAILURE(await([&] { return *under_way == 0 && all_in_step(); }));
  EXPECT_EQ(cluster_.engine().status().failure, "");
  cluster_.network.filter = {};
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
}

// A server that was away says what it lacks in many parts.
TEST_P(AwayOfThree, OneThatIsBackCountsWhenItLacksNothing) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(last, Absence::wiped);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  work();
  settle_evictions();
  std::size_t lacking = 1, parts = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from != last || to != kClient || !is_answer(message) || message[4] != 0 ||
        static_cast<MessageType>(message[2]) != MessageType::damage)
      return true;
    auto damage = decode<DamageAnswer>(ByteSpan(message).subspan(Rpc::kHeaderSize));
    if (!damage) return true;
    lacking = damage->slots.size();
    damage->slots.resize((lacking + 1) / 2);
    ++parts;
    Bytes part = encode(*damage);
    std::copy_n(message.begin(), Rpc::kHeaderSize, part.begin());
    cluster_.network.deliver(from, to, part);
    return false;
  };
  if (!cluster_.runs(last)) cluster_.start_server(last);
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  EXPECT_EQ(lacking, 0u);
  EXPECT_GT(parts, 3u);
  cluster_.network.filter = {};
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  check_contents();
}

// A server that catches up shows wrong copies again and again, each of which is settled. Nobody
// computes with its slots, so nothing that the others do is thrown away because of that.
TEST_P(AwayOfThree, AServerThatCatchesUpAndLiesMakesNothingBeDoneTwice) {
  constexpr Party kLiar = 3;
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  go_away(kLiar, Absence::wiped);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(kLiar) == Standing::away; }));
  come_back(kLiar);
  unsigned lies = 0;
  std::uint64_t asked = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    asked += from == kClient && is_question(message) && type == MessageType::retrieve;
    const bool shows = type == MessageType::digests || type == MessageType::read_slot;
    if (from != kLiar || to != kClient || !is_answer(message) || message[4] != 0 || !shows ||
        message.size() < Rpc::kHeaderSize + 60)
      return true;
    Bytes lie = message;
    lie.back() ^= 1;
    lies += type == MessageType::read_slot;
    cluster_.network.deliver(from, to, lie);
    return false;
  };
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(kLiar) == Standing::following; }));
  const std::uint64_t accesses = cluster_.engine().status().accesses, before = asked;
  work();
  cluster_.settle();
  const std::uint64_t done = cluster_.engine().status().accesses - accesses;
  EXPECT_GT(lies, 0u);
  EXPECT_GT(done, 0u);
  const unsigned workers = cluster_.params().scheme.threshold + 1u;
  EXPECT_EQ(asked - before, workers * done) << lies << " lies";
  cluster_.network.filter = {};
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  expect_equal_replicas();
}

// The server answers, but its disk does not do its work. Once the server says so, nobody waits for
// it.
TEST_P(AwayOfThree, OneWhoseDiskHangsIsLeftOut) {
  constexpr Duration kSaysSoAfter = std::chrono::milliseconds(1500);
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    if (from != last || !is_answer(message)) return true;
    if (type == MessageType::traffic) cluster_.network.deliver(from, to, refusal_of(message));
    return type != MessageType::traffic && type != MessageType::write_root &&
           type != MessageType::relay && type != MessageType::prepare;
  };
  EXPECT_LT(work(), kMostPause - kSaysSoAfter);
  EXPECT_EQ(standing(last), Standing::away);
  cluster_.network.filter = {};
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
}

// A server cannot write for a while. When it is back, nothing has been written to it yet.
TEST_P(AwayOfThree, WhatAServerFailedAtBeforeItsReturnDoesNotCount) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from != last || to != kClient || !is_answer(message) ||
        static_cast<MessageType>(message[2]) != MessageType::write_root)
      return true;
    cluster_.network.deliver(from, to, refusal_of(message));
    return false;
  };
  ASSERT_NO_FATAL_FAILURE(write(3, ++generation_));
  EXPECT_EQ(standing(last), Standing::away);
  cluster_.network.filter = {};
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  const Duration end = cluster_.clock.now() + std::chrono::seconds(10);
  cluster_.run_until([&] { return !all_in_step() || cluster_.clock.now() >= end; });
  EXPECT_TRUE(all_in_step()) << "it is left out again";
}

// A server has lost its table of buckets. In the places that the buckets get now lie other buckets
// of the same eviction.
TEST_P(AwayTest, WhatALostTableLeavesOnTheDiskIsNotTakenForOtherBuckets) {
  const Party last = cluster_.servers();
  ASSERT_OK(cluster_.open_client());
  while (cluster_.engine().status().evictions == 0) {
    ASSERT_NO_FATAL_FAILURE(write(generation_ % kBlocks, generation_));
    ++generation_;
    settle_evictions();
  }
  go_away(last, Absence::killed);
  for (const char* file : {"control.db", "control.db-wal", "control.db-shm"})
    cluster_.disk(last).remove(file);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  come_back(last);
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
}

// Each time it is in step, a server is cut off again. The client waits longer and longer until it
// brings the server back, and programs seldom notice.
TEST_P(AwayOfThree, OneThatComesAndGoesIsBroughtBackLessOften) {
  ASSERT_NO_FATAL_FAILURE(fill());
  const Duration begun = cluster_.clock.now(), end = begun + std::chrono::minutes(10);
  Duration paused{};
  unsigned times = 0;
  while (cluster_.clock.now() < end) {
    const bool in_step = standing(2) == Standing::in_step;
    if (in_step && !cluster_.network.filter) {
      go_away(2, Absence::cut_off);
      ++times;
    } else if (standing(2) == Standing::away) {
      come_back(2);
    }
    const Duration before = cluster_.clock.now();
    ASSERT_NO_FATAL_FAILURE(write(3, ++generation_));
    if (const Duration took = cluster_.clock.now() - before; took > std::chrono::seconds(1))
      paused += took;
    const Duration next = cluster_.clock.now() + std::chrono::milliseconds(200);
    cluster_.run_until([&] { return cluster_.clock.now() >= next; });
  }
  EXPECT_GT(times, 5u);
  EXPECT_LT(10 * paused, end - begun) << times << " times";
}

/// The servers in step have lost the content of a slot, and give it up. The last server is away,
/// and still has it, under the same stamp.
class GivenUp : public AwayTest {
 protected:
  void give_up();
};
INSTANTIATE_TEST_SUITE_P(Volumes, GivenUp,
                         testing::Values(test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 3}),
                                         test::mirror_volume(6, 2, min_stash_slots(6, 2), {2, 4})),
                         volume_name);

void GivenUp::give_up() {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_NO_FATAL_FAILURE(begin_group());
  go_away(last, Absence::killed);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  ASSERT_OK(cluster_.close_client());
  BlockId block = 0;
  const Position position = one_in_the_tree(block);
  const BucketIndex bucket = bucket_on_path(position.leaf, position.level);
  for (Party server = 1; server < last; ++server) rot(server, bucket, position.slot);
  ASSERT_OK(cluster_.open_client());
  EXPECT_FALSE(cluster_.read(block));
  cluster_.settle();  // otherwise the next opening would repeat the rest of the access
  ASSERT_EQ(cluster_.engine().status().evictions, 0u) << "an eviction would give it another stamp";
  ASSERT_OK(cluster_.close_client());  // the vault remembers later, too, that the slot was given up
}

TEST_P(GivenUp, IsComparedWithWhatOneBringsBack) {
  ASSERT_NO_FATAL_FAILURE(give_up());
  come_back(cluster_.servers());
  ASSERT_OK(cluster_.open_client());
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  expect_equal_buckets();
  check_contents();  // all blocks: the content still existed
}

TEST_P(GivenUp, IsComparedAfterARestoreToo) {
  ASSERT_NO_FATAL_FAILURE(give_up());
  cluster_.lose_client();
  ASSERT_OK(cluster_.rebuild_client());
  come_back(cluster_.servers());
  ASSERT_OK(cluster_.open_client());
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  expect_equal_replicas();
}

// One server after another goes away at any moment and comes back, and the client dies now and
// then.
TEST_P(AwayTest, RandomAbsences) {
  std::mt19937_64 random(cluster_.servers());
  // Callbacks of a client that was killed may come later.
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
