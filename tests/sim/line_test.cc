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
  /// Begins writes, so many that each server is asked for something, and returns how long it takes
  /// until this server is no longer in step.
  Duration until_noticed(Party server) {
    const Duration begun = cluster_.clock.now();
    for (BlockId block = 1; block < 7; ++block) {
      newest_[block] = ++generation_;
      cluster_.engine().write(block, pattern(block, generation_, test::kBlockSize),
                              [](const Status&) {});
    }
    EXPECT_NO_FATAL_FAILURE(await([&] { return standing(server) != Standing::in_step; }));
    return cluster_.clock.now() - begun;
  }
};
const VolumeParams kThree = mirror_volume(6, 2, min_stash_slots(6, 2), {1, 3});
constexpr auto kName = [](const auto& test) {
  return fmt::format("T{}L{}", test.param.scheme.threshold, test.param.scheme.servers);
};
class LinesOfThree : public Lines {};
INSTANTIATE_TEST_SUITE_P(Volume, LinesOfThree, testing::Values(kThree), kName);

// At any moment between two looks of the client.
TEST_P(LinesOfThree, AnAbsenceIsNoticedInTime) {
  ASSERT_NO_FATAL_FAILURE(fill());
  for (int moment = 0; moment < 16; ++moment) {
    pass(moment * 37ms);
    go_away(2, Absence::cut_off);
    EXPECT_LE(until_noticed(2), kNoticedWithin) << "moment " << moment;
    come_back(2);
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
