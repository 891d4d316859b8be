// Mirrors in which one server is away: killed, cut off, without power or wiped. Programs notice
// only a pause; the server comes back without help, and then another one may go away.
#include <random>
#include <set>

#include "oramcore/protocol/repair_messages.h"
#include "tests/sim/ledger.h"
#include "tests/sim/mirror_in_use.h"

namespace s3oram {
namespace {

using test::Absence;
using test::kAbsences;
using test::kMostPause;
using test::pattern;

class AwayTest : public test::MirrorInUse {};
INSTANTIATE_TEST_SUITE_P(Volumes, AwayTest,
                         testing::Values(test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 3}),
                                         test::mirror_volume(6, 2, min_stash_slots(6, 2), {2, 4}),
                                         test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 4})),
                         [](const auto& test) {
                           return fmt::format("T{}L{}", test.param.scheme.threshold,
                                              test.param.scheme.servers);
                         });

/// Cases with one volume, because one server is away and another one fails, or because they are
/// long.
class AwayOfThree : public AwayTest {};
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

// A server that was rolled back cannot give what a server in step must have.
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

// A server that is not needed refuses requests, with each kind of error.
TEST_P(AwayOfThree, NoErrorOfOneServerEndsTheVolume) {
  ASSERT_NO_FATAL_FAILURE(fill());
  constexpr MessageType kTypes[] = {MessageType::write_root, MessageType::prepare,
                                    MessageType::commit, MessageType::retrieve,
                                    MessageType::certify};
  constexpr Errc kErrors[] = {Errc::failed,        Errc::stale_vault, Errc::unreachable,
                              Errc::unsupported,   Errc::fenced,      Errc::bad_request,
                              Errc::shutting_down, Errc::corrupt};
  for (const MessageType refused : kTypes)
    for (const Errc code : kErrors) {
      // A server may report damage as often as a retrieval finds it.
      if (code == Errc::corrupt && refused == MessageType::retrieve) continue;
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

// The old copy knows of no newer session. Nor does the server that was left out, so it would accept
// a session of the copy.
TEST_P(AwayOfThree, AnOldCopyOfTheVaultLeavesNoTraceAtAServerThatWasLeftOut) {
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

// The copy was made in the same session, when a server other than the current one was left out. So
// the server that is now left out knows of the newer write, too.
TEST_P(AwayOfThree, AnOldCopyOfTheVaultIsRefusedOnTheWordOfAServerThatItLeftOut) {
  ASSERT_NO_FATAL_FAILURE(fill());
  const auto evictions = [&] { return cluster_.engine().status().evictions; };
  ASSERT_NO_FATAL_FAILURE(begin_group());
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

// A worker gives a following server rows that differ from those of the servers in step. Later that
// server would be in step, and the reads that fail would show the liar what is read.
TEST_P(AwayTest, RowsOfAServerThatFollowsAreCertified) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(last, Absence::killed);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  work();
  unsigned lies = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from == kClient || to != last || !is_question(message)) return true;
    const auto type = static_cast<MessageType>(message[2]);
    // The server keeps following until it has been sent what it lacks.
    if (type == MessageType::masked_share) return lies > 0;
    if (type != MessageType::subshare || standing(last) != Standing::following) return true;
    Bytes changed = message;
    changed[changed.size() - 30] ^= 1;
    ++lies;
    cluster_.network.deliver(from, to, changed);
    return false;
  };
  if (!cluster_.runs(last)) cluster_.start_server(last);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::following; }));
  begin_writes(6);
  // Compared before more evictions use these rows, because they would find and replace wrong ones.
  ASSERT_NO_FATAL_FAILURE(await([&] { return lies > 0 && all_in_step(); }));
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  EXPECT_LT(work(), kMostPause);
  cluster_.network.filter = {};
  EXPECT_FALSE(cluster_.engine().status().evictions_stopped);
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  check_contents();
}

// The same lie, but the server that follows is told so late what its rows should be that meanwhile
// it has all data, and comes into step.
TEST_P(AwayOfThree, RowsOfAServerThatComesIntoStepMeanwhileAreCertified) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(last, Absence::killed);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  work();
  settle_evictions();
  unsigned lies = 0;
  bool certifying = false, late = false;
  Bytes held;  // an answer of server 1
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    const bool follows = standing(last) == Standing::following;
    if (!follows && !held.empty()) {
      late = true;
      cluster_.network.deliver(1, kClient, std::exchange(held, {}));
    }
    if (from == kClient && to == last && type == MessageType::certify) certifying = true;
    if (follows && from == 1 && is_answer(message) && type == MessageType::certify) {
      held = message;
      return false;
    }
    if (from == kClient || to != last || !is_question(message)) return true;
    if (type == MessageType::masked_share) return certifying;  // keeps it following
    if (type != MessageType::subshare || !follows || certifying) return true;
    Bytes changed = message;
    changed[changed.size() - 30] ^= 1;
    ++lies;
    cluster_.network.deliver(from, to, changed);
    return false;
  };
  cluster_.start_server(last);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::following; }));
  const auto under_way = begin_writes(6);
  ASSERT_NO_FATAL_FAILURE(await([&] { return certifying && *under_way == 0; }));
  cluster_.network.filter = {};
  EXPECT_GT(lies, 0u);
  EXPECT_TRUE(late);
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  check_contents();
}

// A server that is not needed answers everything except the requests on which an eviction, or its
// own return, depends.
TEST_P(AwayOfThree, NoAnswerOfAServerThatComesBackIsWaitedForLong) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  for (const MessageType silent :
       {MessageType::certify, MessageType::prepare, MessageType::rejoin}) {
    SCOPED_TRACE(fmt::format("type {}", static_cast<int>(silent)));
    go_away(last, Absence::killed);
    ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
    work();
    unsigned lost = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      const auto type = static_cast<MessageType>(message[2]);
      const bool copies =
          to == last && standing(last) == Standing::following &&
          type == (from == kClient ? MessageType::heal_slot : MessageType::masked_share);
      if (copies && silent != MessageType::rejoin && lost == 0) return false;  // keeps it following
      if (from != last || to != kClient || !is_answer(message) || type != silent) return true;
      if (standing(last) == Standing::in_step) return true;  // now it is needed
      ++lost;
      return false;
    };
    if (!cluster_.runs(last)) cluster_.start_server(last);
    const auto evictions = cluster_.engine().status().evictions;
    // A server that went away repeatedly is brought back after a while.
    const Duration until = cluster_.clock.now() + test::kLong;
    while (lost == 0 && cluster_.clock.now() < until)
      EXPECT_LT(longest_of_writes(std::chrono::seconds(1)), kMostPause);
    EXPECT_LT(longest_of_writes(std::chrono::seconds(14)), kMostPause);
    EXPECT_GT(lost, 0u);
    EXPECT_GT(cluster_.engine().status().evictions, evictions);
    cluster_.network.filter = {};
    ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
}

// A server that follows has a disk that is full, or smaller than those of the others.
TEST_P(AwayOfThree, AServerThatFollowsTakesNoRoomAway) {
  const Party last = cluster_.servers();
  const VolumeParams& params = cluster_.params();
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(last, Absence::killed);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  work();
  // From here on, the tree grows with the next eviction after a further block.
  const auto height = [&] { return cluster_.engine().status().height; };
  BlockId block = kBlocks;
  while (block + params.root_buffer_slots() < capacity(height(), params.evict_every))
    ASSERT_NO_FATAL_FAILURE(write(block++, 1));
  settle_evictions();
  const unsigned before = height();
  unsigned refusals = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    if (standing(last) != Standing::following) return true;
    if (to == last && refusals == 0 &&
        type == (from == kClient ? MessageType::heal_slot : MessageType::masked_share))
      return false;  // keeps it following
    if (from != last || to != kClient || !is_answer(message) || message[4] != 0) return true;
    if (type != MessageType::reserve && type != MessageType::room) return true;
    Bytes changed(message.begin(), message.begin() + Rpc::kHeaderSize);
    if (type == MessageType::room) changed = encode(RoomAnswer{.height = 1});
    std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
    if (type == MessageType::reserve) {
      changed[4] = static_cast<std::uint8_t>(Errc::disk_full);
      ++refusals;
    }
    cluster_.network.deliver(from, to, changed);
    return false;
  };
  cluster_.start_server(last);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::following; }));
  for (const BlockId end = block + 8; block < end; ++block) {
    ASSERT_NO_FATAL_FAILURE(write(block, 1));
    EXPECT_TRUE(cluster_.engine().room().can_grow);
  }
  settle_evictions();
  EXPECT_GT(refusals, 0u);
  EXPECT_EQ(height(), before + 1);
  cluster_.network.filter = {};
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
}

// Two of four servers answer everything except one of the requests on which an eviction depends.
TEST_P(AwayTest, AsManyAsMayBeAwayCannotHoldAnEvictionUp) {
  if (cluster_.servers() < cluster_.params().workers() + 2) return;
  ASSERT_NO_FATAL_FAILURE(fill());
  for (const MessageType silent :
       {MessageType::certify, MessageType::commit, MessageType::release}) {
    SCOPED_TRACE(fmt::format("type {}", static_cast<int>(silent)));
    unsigned lost = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      const bool lose = from + 2 > cluster_.servers() && to == kClient && is_answer(message) &&
                        static_cast<MessageType>(message[2]) == silent;
      lost += lose;
      return !lose;
    };
    const auto evictions = cluster_.engine().status().evictions;
    EXPECT_LT(longest_of_writes(std::chrono::seconds(20)), std::chrono::seconds(16));
    EXPECT_GT(lost, 0u);
    EXPECT_GT(cluster_.engine().status().evictions, evictions + 2);
    cluster_.network.filter = {};
    ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
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

// One of the two servers that describe the tree to a returning one shows wrong stamps, or does not
// name all buckets. Buckets on which the two do not agree are copied and compared.
TEST_P(AwayOfThree, NoServerKeepsAnotherOneOutByWhatItSaysOfTheTree) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  const std::function<void(std::vector<BucketShape>&)> tales[] = {
      [](std::vector<BucketShape>& buckets) {
        for (BucketShape& each : buckets)
          if (each.stamp) ++*each.stamp;
      },
      [](std::vector<BucketShape>& buckets) {
        std::erase_if(buckets, [](const BucketShape& each) { return each.bucket % 2 == 0; });
      }};
  for (const auto& tale : tales) {
    go_away(last, Absence::killed);
    ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
    work();
    unsigned lies = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from != 1 || to != kClient || !is_answer(message) || message[4] != 0 ||
          static_cast<MessageType>(message[2]) != MessageType::layout)
        return true;
      auto answer = decode<LayoutAnswer>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      if (!answer) return true;
      tale(answer->buckets);
      Bytes changed = encode(*answer);
      std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
      ++lies;
      cluster_.network.deliver(from, to, changed);
      return false;
    };
    if (!cluster_.runs(last)) cluster_.start_server(last);
    ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
    cluster_.network.filter = {};
    EXPECT_GT(lies, 0u);
    ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  }
  check_contents();
}

// One of the two servers that describe the tree names the stamps that the returning one has, as if
// nothing had been written since it went away.
TEST_P(AwayOfThree, NoServerHidesWhatAnotherOneLacks) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  for (const Party liar : Bytes{1, 2}) {
    SCOPED_TRACE(fmt::format("server {}", liar));
    go_away(last, Absence::killed);
    ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
    std::map<BucketIndex, Stamp> old;
    {
      const auto control = Control::open("control.db", cluster_.disk(last));
      ASSERT_OK(control);
      for (const auto& [bucket, ref] : control->layout()) old[bucket] = ref.stamp;
    }
    work();
    unsigned lies = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from != liar || to != kClient || !is_answer(message) || message[4] != 0 ||
          static_cast<MessageType>(message[2]) != MessageType::layout)
        return true;
      auto answer = decode<LayoutAnswer>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      if (!answer) return true;
      for (BucketShape& each : answer->buckets)
        if (const auto found = old.find(each.bucket); found != old.end())
          each.stamp = found->second;
      Bytes changed = encode(*answer);
      std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
      ++lies;
      cluster_.network.deliver(from, to, changed);
      return false;
    };
    cluster_.start_server(last);
    ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
    cluster_.network.filter = {};
    EXPECT_GT(lies, 0u);
    ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  }
  check_contents();
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

// A server that gets errors from another one is not itself in trouble.
TEST_P(AwayOfThree, AServerThatRefusesRowsDoesNotHaveOthersLeftOut) {
  constexpr Party liar = 1;
  ASSERT_NO_FATAL_FAILURE(fill());
  unsigned refusals = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from != liar || !is_answer(message) ||
        static_cast<MessageType>(message[2]) != MessageType::subshare)
      return true;
    ++refusals;
    cluster_.network.deliver(from, to, refusal_of(message));
    return false;
  };
  const auto evictions = cluster_.engine().status().evictions;
  for (int round = 0; round < 3; ++round) {
    work();
    for (Party server = 2; server <= cluster_.servers(); ++server)
      EXPECT_EQ(standing(server), Standing::in_step) << "server " << +server;
  }
  EXPECT_GT(refusals, 0u);
  EXPECT_GT(cluster_.engine().status().evictions, evictions);
  cluster_.network.filter = {};
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
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

// The servers in step have lost the content of a slot, and give it up. The server that is away
// still has it, under the same stamp.
TEST_P(AwayTest, WhatTheOthersGaveUpIsComparedWithWhatOneBringsBack) {
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
  come_back(last);
  ASSERT_OK(cluster_.open_client());
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  const auto first = buckets_of(1);
  for (Party server = 2; server <= last; ++server)
    EXPECT_EQ(buckets_of(server), first) << "server " << +server;
  check_contents();  // all blocks: the content still existed
}

// The client is lost when one of two servers in step has installed an eviction, while a third
// server is far behind.
TEST_P(AwayOfThree, ARestoreInTheMiddleOfADecisionDoesNotAskTheOneThatIsBehind) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(last, Absence::killed);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  work();
  ASSERT_OK(cluster_.commit());
  bool installed = false;
  cluster_.network.filter = [](Party from, Party to, const Bytes& message) {
    return from != kClient || to == 1 || !is_question(message) ||
           static_cast<MessageType>(message[2]) != MessageType::commit;
  };
  cluster_.on_step = [&](Party party, std::string_view name, bool done) {
    installed = installed || (party == 1 && name == "flip" && done);
  };
  for (BlockId block = 0; block < 6; ++block)
    cluster_.engine().write(block, pattern(block, newest_[block], test::kBlockSize),
                            [](const Status&) {});
  ASSERT_NO_FATAL_FAILURE(await([&] { return installed; }));
  cluster_.on_step = {};
  cluster_.network.filter = {};
  cluster_.kill_client();
  cluster_.settle();
  come_back(last);
  cluster_.lose_client();
  ASSERT_OK(cluster_.rebuild_client());
  go_on();
  expect_equal_replicas();
}

// One of the two servers that have everything shows, in place of each slot, the next slot of the
// bucket: as new as the right one, and sealed as well.
TEST_P(AwayOfThree, ARestoreBindsWhatOneServerShowsToItsPlace) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(last, Absence::killed);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  work();
  work();
  ASSERT_OK(cluster_.commit());
  settle_evictions();
  cluster_.kill_client();
  cluster_.settle();
  come_back(last);
  cluster_.lose_client();
  const unsigned z = cluster_.params().bucket_size;
  unsigned lies = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
    Bytes changed;
    if (from == 1 && to == kClient && is_answer(message) && type == MessageType::heads) {
      auto answer = decode<HeadsAnswer>(body);
      if (!answer || answer->slots.size() != z) return true;
      for (std::size_t i = 0; i + 1 < answer->slots.size(); ++i)
        std::swap(answer->slots[i].head, answer->slots[i + 1].head);
      changed = encode(*answer);
      ++lies;
    } else if (from == kClient && to == 1 && is_question(message) &&
               type == MessageType::read_slot) {
      auto request = decode<ReadSlotRequest>(body);
      if (!request || request->at.bucket == kRoot) return true;
      request->at.slot = static_cast<std::uint16_t>((request->at.slot + 1) % z);
      changed = encode(*request);
    } else {
      return true;
    }
    std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
    cluster_.network.deliver(from, to, changed);
    return false;
  };
  const auto rebuilt = cluster_.rebuild_client();
  cluster_.network.filter = {};
  ASSERT_OK(rebuilt);
  EXPECT_GT(lies, 0u);
  go_on();
  expect_equal_replicas();
}

// Before the client was lost, one server received a root write that the others did not. It shows
// this write in place of the previous one, which all have: as sealed as that one, and newer.
TEST_P(AwayOfThree, ARestoreTakesNoRootWriteForThatOfAnotherSlot) {
  constexpr Party kLiar = 1;
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_NO_FATAL_FAILURE(begin_group());
  struct Write {
    std::uint16_t slot = 0;
    std::uint64_t access = 0;
  };
  Write last, withheld;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    if (from == kClient && is_question(message) && type == MessageType::write_root) {
      const auto write = decode<WriteRootRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      if (!write) return true;
      last = {root_slot(write->write_number, cluster_.params().evict_every), write->access};
      const bool given = std::ranges::any_of(
          write->parts, [](const SharePart& part) { return !part.content.empty(); });
      if (withheld.access == 0 && to == kLiar && given) withheld = last;
    }
    return withheld.access == 0 || type != MessageType::relay;
  };
  Write shown;  // the last one that counts
  while (withheld.access == 0) {
    shown = last;
    const BlockId block = ++generation_ % kBlocks;
    bool written = false;
    cluster_.engine().write(block, pattern(block, generation_, test::kBlockSize),
                            [&](const Status& status) { written = status.has_value(); });
    cluster_.run_until([&] { return written || withheld.access != 0; });
    if (written) newest_[block] = generation_;
    cluster_.settle();
  }
  ASSERT_NE(shown.access, 0u);
  ASSERT_NE(shown.slot, withheld.slot);
  cluster_.kill_client();
  cluster_.settle();
  cluster_.lose_client();
  unsigned lies = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
    Bytes changed;
    if (from == kLiar && to == kClient && is_answer(message) && type == MessageType::survey) {
      auto answer = decode<SurveyAnswer>(body);
      if (!answer) return true;
      answer->root[shown.slot] = withheld.access;
      answer->root[withheld.slot] = 0;
      changed = encode(*answer);
      ++lies;
    } else if (from == kClient && to == kLiar && is_question(message) &&
               type == MessageType::read_slot) {
      auto request = decode<ReadSlotRequest>(body);
      if (!request || request->at.bucket != kRoot || request->at.slot != shown.slot) return true;
      request->at.slot = withheld.slot;
      changed = encode(*request);
    } else {
      return true;
    }
    std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
    cluster_.network.deliver(from, to, changed);
    return false;
  };
  const auto rebuilt = cluster_.rebuild_client();
  cluster_.network.filter = {};
  ASSERT_OK(rebuilt);
  EXPECT_GT(lies, 0u);
  go_on();
  expect_equal_replicas();
}

// The servers that may lie show zeros wherever one other server has content.
TEST_P(AwayTest, ARestoreTakesNoZerosForWhatOneServerHolds) {
  const Party last = cluster_.servers(), liars = cluster_.params().scheme.threshold;
  const auto lies_of = [=](Party server) { return server > 1 && server <= 1 + liars; };
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(last, Absence::killed);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  work();
  ASSERT_OK(cluster_.commit());
  settle_evictions();
  cluster_.kill_client();
  cluster_.settle();
  come_back(last);
  cluster_.lose_client();
  unsigned lies = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    if (!lies_of(from) || to != kClient || !is_answer(message) || message[4] != 0) return true;
    Bytes changed(message.begin(), message.begin() + Rpc::kHeaderSize);
    if (type == MessageType::heads)
      changed = encode(HeadsAnswer{});
    else if (type == MessageType::read_slot)
      changed.resize(message.size());
    else
      return true;
    std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
    ++lies;
    cluster_.network.deliver(from, to, changed);
    return false;
  };
  const auto rebuilt = cluster_.rebuild_client();
  cluster_.network.filter = {};
  ASSERT_OK(rebuilt);
  EXPECT_GT(lies, 0u);
  go_on();
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
