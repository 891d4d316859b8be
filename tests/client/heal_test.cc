// Slots that decay on a server's disk, or go back in time, are healed from the other servers'
// shares.
#include <gtest/gtest.h>

#include "serverd/store/bucket_store.h"
#include "tests/harness/volumes.h"
#include "tests/sim/cluster.h"

namespace s3oram {
namespace {

using test::Cluster;
using test::kBlockSize;
using test::pattern;

constexpr std::size_t kStride = kBlockSize + VolumeParams::kSealOverhead + BucketVersion::kTrailer;

class Heal : public test::EachEvictor {
 protected:
  void write(BlockId block, std::uint64_t generation) {
    ASSERT_OK(cluster_.write(block, pattern(block, generation, kBlockSize)));
  }
  void expect(BlockId block, std::uint64_t generation) {
    auto got = cluster_.read(block);
    ASSERT_TRUE(got) << "block " << block << ": " << got.error().message;
    EXPECT_EQ(*got, pattern(block, generation, kBlockSize)) << "block " << block;
  }
  /// Drops what the server has in memory, so that it reads its disk.
  void restart(Party server) {
    cluster_.stop_server(server);
    cluster_.start_server(server);
  }
  void rot_everything(Party server) {
    const std::size_t size = cluster_.disk(server).content(cluster_.slots()).size();
    for (std::size_t at = 17; at < size; at += kStride) cluster_.disk(server).rot("slots", at, 4);
    restart(server);
  }

  Cluster cluster_{test::safe_volume(GetParam(), 4), 41};
};
S3O_WITH_EACH_EVICTOR(Heal);

TEST_P(Heal, AServerWhoseDiskRotsIsHealedByTheOthers) {
  constexpr BlockId kBlocks = 30;
  ASSERT_OK(cluster_.open_client());
  for (BlockId block = 0; block < kBlocks; ++block) write(block, 1);
  for (Party server = 1; server <= 3; ++server) {
    rot_everything(server);
    // The next server's turn shows that this server's shares are right again.
    for (int round = 0; round < 4; ++round)
      for (BlockId block = 0; block < kBlocks; ++block) expect(block, 1);
  }
  ASSERT_OK(cluster_.close_client());
}

// Each path has damage of its own, and the other accesses wait while it is healed.
TEST(HealAtOnce, ManyReadsFindAWholeDiskDamaged) {
  Cluster cluster(test::safe_volume(Evictor::shuffle, 32), 43);
  ASSERT_OK(cluster.open_client());
  constexpr BlockId kMany = 300;
  for (BlockId block = 0; block < kMany; ++block)
    ASSERT_OK(cluster.write(block, pattern(block, 1, kBlockSize)));
  cluster.settle();
  const std::size_t size = cluster.disk(2).content(cluster.slots()).size();
  for (std::size_t at = 17; at < size; at += kStride) cluster.disk(2).rot("slots", at, 4);
  cluster.stop_server(2);
  cluster.start_server(2);
  std::size_t right = 0, ended = 0;
  for (BlockId block = 0; block < kMany; ++block)
    cluster.engine().read(block, [&, block](const Result<Bytes>& got) {
      ++ended;
      right += got && *got == pattern(block, 1, kBlockSize);
    });
  cluster.run_until([&] { return ended == kMany; });
  EXPECT_EQ(right, kMany);
}

TEST_P(Heal, WhatTwoServersHaveLostCostsItsBlockAlone) {
  ASSERT_OK(cluster_.open_client());
  for (BlockId block = 0; block < 3; ++block) write(block, 1);
  // The root's slots for new writes come first; block 1 lies in the second.
  for (const Party server : {1, 3}) {
    cluster_.disk(server).rot("slots", kStride + 100, 1);
    restart(server);
  }
  expect(0, 1);
  // The damage is known before anyone asks for the slot.
  EXPECT_EQ(cluster_.engine().status().unreadable, 1u);
  auto lost = cluster_.read(1);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Errc::corrupt);
  for (std::uint64_t generation = 2; generation < 12; ++generation) {
    for (const BlockId block : {0, 2, 3}) write(block, generation);
    for (const BlockId block : {0, 2, 3}) expect(block, generation);
  }
  write(1, 5);
  expect(1, 5);
}

TEST_P(Heal, AServerSetBackWithinATreeVersion) {
  ASSERT_OK(cluster_.open_client());
  // By now the root's slots are used again, so a slot that has lost its write holds an older one.
  for (std::uint64_t i = 0; i < 80; ++i) write(i % 10, i);
  write(20, 1);
  cluster_.settle();
  cluster_.stop_server(2);
  const auto older = cluster_.disk(2).image();
  cluster_.start_server(2);
  write(21, 1);
  ASSERT_OK(cluster_.commit());
  cluster_.stop_server(2);
  cluster_.replace_disk(2, older);
  std::size_t asked_for_damage = 0;
  cluster_.network.observer = [&](Party from, Party, const Bytes& message) {
    asked_for_damage += from == kClient && is_question(message) &&
                        static_cast<MessageType>(message[2]) == MessageType::damage;
  };
  cluster_.start_server(2);
  expect(21, 1);
  EXPECT_GT(asked_for_damage, 0U) << "the server has computed with its earlier content";
  cluster_.network.observer = {};
  expect(20, 1);
  for (std::uint64_t i = 70; i < 80; ++i) expect(i % 10, i);
}

// control.db is as it was. A store that was only mislaid is not healed over: the server computes
// with nothing until it has its own file again, and then works as before.
TEST_P(Heal, AServerWithSlotsOfAnotherTimeOrOfAnotherServer) {
  ASSERT_OK(cluster_.open_client());
  std::uint64_t i = 0;
  const auto write_more = [&] {
    for (const std::uint64_t until = i + 80; i < until; ++i) write(i % 10, i);
    cluster_.settle();
  };
  write_more();
  const auto slots = cluster_.slots().string();
  for (const Party other : {2, 3, 2}) {
    auto others = cluster_.disk(other).image().files.at(slots);
    write_more();
    ASSERT_OK(cluster_.commit());
    cluster_.settle();
    if (other != 2) others = cluster_.disk(other).image().files.at(slots);  // the others now
    cluster_.stop_server(2);
    const auto right = cluster_.disk(2).image();
    auto image = right;
    image.files.at(slots) = others;
    cluster_.replace_disk(2, image);
    cluster_.start_server(2);
    bool answered = false;
    cluster_.engine().read(0, [&](const Result<Bytes>&) { answered = true; });
    cluster_.settle();
    EXPECT_FALSE(answered);
    EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
    cluster_.stop_server(2);
    cluster_.replace_disk(2, right);
    cluster_.start_server(2);
    for (BlockId block = 0; block < 10; ++block) expect(block, i - 10 + block);
    EXPECT_TRUE(answered);
  }
  write_more();
  for (BlockId block = 0; block < 10; ++block) expect(block, i - 10 + block);
}

// An eviction that was cut short is repeated, with other shares.
TEST_P(Heal, AServerWithSlotsOfAnAttemptThatWasDiscarded) {
  ASSERT_OK(cluster_.open_client());
  for (BlockId block = 0; block < 3; ++block) write(block, 1);
  std::optional<test::DiskImage::Content> discarded;
  const auto slots = cluster_.slots().string();
  cluster_.on_step = [&](Party party, std::string_view name, bool done) {
    if (party == 2 && name == "prepared" && done)
      discarded = cluster_.disk(2).image().files.at(slots);
  };
  cluster_.network.filter = [&](Party, Party to, const Bytes&) {
    return to != kClient || !discarded;
  };
  std::size_t answered = 0;
  for (BlockId block = 3; block < 6; ++block)
    cluster_.engine().write(block, pattern(block, 1, kBlockSize), [&](Status) { ++answered; });
  cluster_.run_until([&] { return discarded.has_value(); });
  cluster_.kill_client();
  cluster_.on_step = {};
  cluster_.network.filter = {};
  ASSERT_OK(cluster_.open_client());
  for (BlockId block = 0; block < 3; ++block) expect(block, 1);
  cluster_.settle();
  ASSERT_OK(cluster_.commit());
  cluster_.stop_server(2);
  const auto right = cluster_.disk(2).image();
  auto image = right;
  image.files.at(slots) = *discarded;
  cluster_.replace_disk(2, image);
  cluster_.start_server(2);
  bool read = false;
  cluster_.engine().read(0, [&](const Result<Bytes>&) { read = true; });
  cluster_.settle();
  EXPECT_FALSE(read);  // the server says that the file is not its own
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  cluster_.stop_server(2);
  cluster_.replace_disk(2, right);
  cluster_.start_server(2);
  for (int round = 0; round < 4; ++round)
    for (BlockId block = 0; block < 3; ++block) expect(block, 1);
}

// The server commits that eviction again, and must not count root writes that it lost as held.
TEST_P(Heal, AServerSetBackToAnEvictionThatItHadPrepared) {
  ASSERT_OK(cluster_.open_client());
  for (std::uint64_t i = 0; i < 80; ++i) write(i % 10, i);
  cluster_.settle();
  std::optional<test::DiskImage> older;
  cluster_.on_step = [&](Party party, std::string_view name, bool done) {
    if (party == 2 && name == "prepared" && done) older = cluster_.disk(2).image();
  };
  for (BlockId block = 20; block < 24; ++block) write(block, 1);
  cluster_.settle();
  ASSERT_TRUE(older);
  cluster_.on_step = {};
  write(24, 1);
  write(25, 1);
  ASSERT_OK(cluster_.commit());
  cluster_.stop_server(2);
  cluster_.replace_disk(2, *older);
  cluster_.start_server(2);
  for (BlockId block = 20; block < 26; ++block) expect(block, 1);
  for (std::uint64_t i = 70; i < 80; ++i) expect(i % 10, i);
}

}  // namespace
}  // namespace s3oram
