// How soon a mirror notices that a server, or the line to one, is gone; and what it must not take
// for that.
#include "tests/sim/mirror_in_use.h"
#include "tests/sim/slow_line.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;
using test::Absence;
using test::kMostPause;
using test::mirror_volume;
using test::pattern;

constexpr Duration kNoticedWithin = 1701ms;  // clocks of the simulation round

class Lines : public test::MirrorInUse {
 protected:
  void await_all_in_step() {
    ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  }
  void pass(Duration time) {
    const Duration until = cluster_.clock.now() + time;
    cluster_.run_until([&] { return cluster_.clock.now() >= until; });
  }
  /// Returns how long it takes until this server is no longer in step.
  Duration until_noticed(Party server) {
    const Duration begun = cluster_.clock.now();
    EXPECT_NO_FATAL_FAILURE(await([&] { return standing(server) != Standing::in_step; }));
    return cluster_.clock.now() - begun;
  }
};
const VolumeParams kThree = mirror_volume(6, 2, min_stash_slots(6, 2), {1, 3});
constexpr auto kName = [](const auto& test) {
  return fmt::format("T{}L{}", test.param.scheme.threshold, test.param.scheme.servers);
};
class LinesOfFour : public Lines {};
INSTANTIATE_TEST_SUITE_P(Volume, LinesOfFour,
                         testing::Values(mirror_volume(6, 2, min_stash_slots(6, 2), {1, 4})),
                         kName);
class LinesOfThree : public Lines {};
INSTANTIATE_TEST_SUITE_P(Volume, LinesOfThree, testing::Values(kThree), kName);

// At any moment between two looks of the client.
TEST_P(LinesOfThree, AnAbsenceIsNoticedInTime) {
  ASSERT_NO_FATAL_FAILURE(fill());
  for (int moment = 0; moment < 16; ++moment) {
    pass(moment * 37ms);
    go_away(2, Absence::cut_off);
    begin_writes(6);  // so many that each server is asked for something
    EXPECT_LE(until_noticed(2), kNoticedWithin) << "moment " << moment;
    come_back(2);
    await_all_in_step();
  }
  check_contents();
}

// The client already waits for an answer of another one, and has also asked this one something that
// it has not answered yet.
TEST_P(LinesOfFour, ASecondAbsenceIsNoticedInTime) {
  constexpr Party kFirst = 2, kSecond = 3;
  ASSERT_NO_FATAL_FAILURE(fill());
  for (int moment = 0; moment < 8; ++moment) {
    SCOPED_TRACE(fmt::format("moment {}", moment));
    ASSERT_NO_FATAL_FAILURE(begin_group());  // room for retrievals from each server
    std::set<Party> asked, gone{kFirst};
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      const bool retrieves = static_cast<MessageType>(message[2]) == MessageType::retrieve;
      if (retrieves && from == kClient) asked.insert(to);
      if (gone.contains(from) || gone.contains(to)) return false;
      return !(retrieves && from == kSecond && to == kClient);
    };
    begin_writes(6);
    ASSERT_NO_FATAL_FAILURE(
        await([&] { return asked.contains(kFirst) && asked.contains(kSecond); }));
    pass(moment * 193ms);
    ASSERT_EQ(standing(kSecond), Standing::in_step);
    gone.insert(kSecond);
    EXPECT_LE(until_noticed(kSecond), kNoticedWithin);
    cluster_.network.filter = {};
    await_all_in_step();
  }
  check_contents();
}

// The server answers questions, but never ends its part in an eviction, as if its disk hung there.
TEST_P(LinesOfThree, OneThatNeverEndsItsPartIsLeftOut) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  for (const MessageType silent :
       {MessageType::prepare, MessageType::certify, MessageType::commit, MessageType::release}) {
    SCOPED_TRACE(fmt::format("type {}", static_cast<int>(silent)));
    unsigned lost = 0;
    bool was_away = false;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      was_away = was_away || standing(last) == Standing::away;
      const auto type = static_cast<MessageType>(message[2]);
      if (from != last || to != kClient || !is_answer(message) || type != silent) return true;
      ++lost;
      return false;
    };
    const auto evictions = cluster_.engine().status().evictions;
    EXPECT_LT(longest_of_writes(10s), kMostPause);
    EXPECT_TRUE(was_away);
    EXPECT_GT(lost, 0u);
    EXPECT_GT(cluster_.engine().status().evictions, evictions + 10);
    cluster_.network.filter = {};
    await_all_in_step();
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  check_contents();
}

/// Mirrors, and one volume of s3oram, in which lines between servers are cut.
class CutLinesTest : public Lines {
 protected:
  /// Cuts the lines between these servers and the others of the set.
  void cut(const Bytes& some, const Bytes& others) {
    cluster_.network.filter = [some, others](Party from, Party to, const Bytes&) {
      const auto is_in = [](const Bytes& set, Party each) {
        return std::ranges::find(set, each) != set.end();
      };
      return !(is_in(some, from) && is_in(others, to)) && !(is_in(others, from) && is_in(some, to));
    };
  }
  void mend() { cluster_.network.filter = {}; }
  std::set<Party> cut_from(Party server) {
    return cluster_.engine().status().servers[server - 1u].cut_from;
  }
  std::set<Party> away() {
    std::set<Party> those;
    for (Party server = 1; server <= cluster_.servers(); ++server)
      if (standing(server) == Standing::away) those.insert(server);
    return those;
  }
};
class CutLinesOfThree : public CutLinesTest {};
INSTANTIATE_TEST_SUITE_P(Volume, CutLinesOfThree, testing::Values(kThree), kName);
class CutLinesOfAllNeeded : public CutLinesTest {};
INSTANTIATE_TEST_SUITE_P(Volumes, CutLinesOfAllNeeded,
                         testing::Values(mirror_volume(6, 2, min_stash_slots(6, 2), {1, 2}),
                                         test::safe_volume(Evictor::shuffle, 2)),
                         [](const auto& test) {
                           return std::string(test.param.is_mirror() ? "Mirror" : "Shuffle");
                         });

TEST_P(CutLinesOfThree, OneEndIsLeftOut) {
  ASSERT_NO_FATAL_FAILURE(fill());
  const std::pair<Party, Party> lines[] = {{1, 2}, {1, 3}, {2, 3}};
  for (const auto& [one, other] : lines) {
    SCOPED_TRACE(fmt::format("{} and {}", one, other));
    cut({one}, {other});
    const auto evictions = cluster_.engine().status().evictions;
    EXPECT_LT(longest_of_writes(5s), kMostPause);
    EXPECT_LT(work(), 1s);
    ASSERT_EQ(away().size(), 1u);
    const Party left_out = *away().begin();
    EXPECT_TRUE(left_out == one || left_out == other);
    EXPECT_EQ(cut_from(left_out), std::set<Party>{left_out == one ? other : one});
    EXPECT_GT(cluster_.engine().status().evictions, evictions + 10);
    mend();
    EXPECT_LT(longest_of_writes(5s), kMostPause);
    await_all_in_step();
    EXPECT_TRUE(cut_from(left_out).empty());
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  check_contents();
}

TEST_P(CutLinesOfThree, IdleVolumesNoticeItToo) {
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  cut({2}, {3});
  ASSERT_NO_FATAL_FAILURE(await([&] { return !away().empty(); }));
  EXPECT_LT(work(), 1s);
}

// It answers the client, but hears nobody else.
TEST_P(CutLinesOfThree, TheOneWithoutAnyLineIsLeftOut) {
  ASSERT_NO_FATAL_FAILURE(fill());
  for (Party server = 1; server <= 3; ++server) {
    cut({server}, {1, 2, 3});
    EXPECT_LT(longest_of_writes(5s), kMostPause);
    EXPECT_EQ(away(), std::set<Party>{server});
    mend();
    await_all_in_step();
  }
  check_contents();
}

// While the line is cut, no server comes back only to be left out again.
TEST_P(CutLinesOfThree, NoneComesAndGoes) {
  ASSERT_NO_FATAL_FAILURE(fill());
  cut({1}, {2});
  EXPECT_LT(longest_of_writes(5s), kMostPause);
  const std::set<Party> left_out = away();
  ASSERT_EQ(left_out.size(), 1u);
  const Duration until = cluster_.clock.now() + 2min;
  while (cluster_.clock.now() < until) {
    EXPECT_LT(longest_of_writes(5s, 1s), 1s);
    ASSERT_EQ(away(), left_out);
  }
}

// The server that was left out could come back, but evictions wait for another line.
TEST_P(CutLinesOfThree, TheOneWithOneBadLineAfterTheOtherIsLeftOut) {
  ASSERT_NO_FATAL_FAILURE(fill());
  cut({1}, {2});
  EXPECT_LT(longest_of_writes(5s), kMostPause);
  ASSERT_EQ(away(), std::set<Party>{2});
  cut({1}, {3});
  begin_writes(6);
  ASSERT_NO_FATAL_FAILURE(await([&] { return away() == std::set<Party>{1}; }));
  EXPECT_LT(longest_of_writes(5s), kMostPause);
  mend();
  await_all_in_step();
  check_contents();
}

// All of them are needed.
TEST_P(CutLinesOfAllNeeded, StatusNamesTheLine) {
  ASSERT_NO_FATAL_FAILURE(fill());
  cut({1}, {2});
  const auto under_way = begin_writes(6);
  ASSERT_NO_FATAL_FAILURE(await([&] { return !cut_from(1).empty(); }));
  EXPECT_EQ(cut_from(1), std::set<Party>{2});
  EXPECT_EQ(cut_from(2), std::set<Party>{1});
  pass(20s);
  EXPECT_TRUE(all_in_step());
  EXPECT_GT(*under_way, 0u);
  mend();
  ASSERT_NO_FATAL_FAILURE(await([&] { return *under_way == 0; }));
  ASSERT_NO_FATAL_FAILURE(await([&] { return cut_from(1).empty(); }));
  check_contents();
}

// The server says that it does not hear another one, or two others.
TEST_P(CutLinesOfThree, NoServerKeepsAnotherOneOutByWhatItSaysOfTheLine) {
  constexpr Party kLiar = 1;
  ASSERT_NO_FATAL_FAILURE(fill());
  for (const std::set<Party>& accused : {std::set<Party>{2}, std::set<Party>{2, 3}}) {
    SCOPED_TRACE(fmt::format("{} accused", accused.size()));
    unsigned lies = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from != kLiar || to != kClient || !is_answer(message) || message[4] != 0 ||
          static_cast<MessageType>(message[2]) != MessageType::lines)
        return true;
      LinesAnswer answer;
      for (const Party each : Bytes{2, 3})
        answer.peers.push_back({each, accused.contains(each) ? Hearing::silent : Hearing::heard});
      Bytes changed = encode(answer);
      std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
      ++lies;
      cluster_.network.deliver(from, to, changed);
      return false;
    };
    // Which server lies, the client cannot know. It comes back only if it hears the others, so it
    // stays away.
    unsigned times = 0;
    bool is_away = false;
    const auto liar_is_away = [&] {
      const std::set<Party> those = away();
      const bool was_away = std::exchange(is_away, those.contains(2) || those.contains(3));
      times += is_away && !was_away;
      return those.contains(kLiar);
    };
    begin_writes(6);
    ASSERT_NO_FATAL_FAILURE(await(liar_is_away));
    EXPECT_LE(times, accused.size() == 1 ? 1u : 0u);
    const unsigned so_far = lies;
    EXPECT_LT(longest_of_writes(30s, 1s), kMostPause);
    EXPECT_EQ(away(), std::set<Party>{kLiar});
    EXPECT_GT(lies, so_far) << "it wants to come back";
    mend();
    await_all_in_step();
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
}

/// Blocks of 64 KiB on a line that carries them as one of 29 and 5 Mbit/s carries blocks of 1 MiB.
class SlowLines : public LinesOfThree {
 protected:
  static constexpr std::uint32_t kLarge = 64 << 10;
  static constexpr double kUp = 5e6 / 8 / 16, kDown = 29e6 / 8 / 16;  // bytes per second
};
VolumeParams with_large_blocks(VolumeParams params) {
  params.block_size = 64 << 10;
  return params;
}
INSTANTIATE_TEST_SUITE_P(Volume, SlowLines, testing::Values(with_large_blocks(kThree)), kName);

// The client reads and writes as much as the line takes. An answer to a question that servers
// answer immediately waits behind the blocks that the server sends.
TEST_P(SlowLines, ABusyOneIsNotTakenForAnAbsence) {
  constexpr BlockId kFew = 6;
  ASSERT_OK(cluster_.open_client());
  for (BlockId block = 0; block < kFew; ++block)
    ASSERT_OK(cluster_.write(block, pattern(block, 1, kLarge)));
  const test::SlowLine line(cluster_, kUp, kDown);
  std::size_t under_way = 0;
  for (int round = 0; round < 4; ++round)
    for (BlockId block = 0; block < kFew; ++block) {
      ++under_way;
      cluster_.engine().read(block, [&, block](Result<Bytes> content) {
        EXPECT_EQ(content.value_or(Bytes()), pattern(block, 1, kLarge));
        --under_way;
      });
    }
  bool all_there = true;
  cluster_.run_until([&] {
    all_there = all_there && all_in_step();
    return under_way == 0;
  });
  EXPECT_TRUE(all_there);
}

}  // namespace
}  // namespace s3oram
