// Tests which servers are in step, which are chosen, and with which ones a volume may be opened.
#include "oramcore/client/in_step.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/harness/volumes.h"

namespace s3oram {
namespace {

InStep mirror(unsigned threshold, unsigned servers) {
  const Scheme scheme{static_cast<std::uint8_t>(threshold), static_cast<std::uint8_t>(servers)};
  return InStep(test::mirror_volume(6, 2, min_stash_slots(6, 2), scheme));
}

TEST(InStep, ASchemeThatNeedsAllHasASetThatNeverShrinks) {
  for (const VolumeParams& params :
       {test::safe_volume(Evictor::shuffle, 2), test::safe_volume(Evictor::matrix, 2),
        test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 2})}) {
    InStep servers(params);
    servers.load({1});
    EXPECT_FALSE(servers.may_shrink());
    EXPECT_EQ(servers.members().size(), params.scheme.servers);
    EXPECT_TRUE(servers.left_out().empty());
    for (Party server = 1; server <= params.scheme.servers; ++server)
      EXPECT_FALSE(servers.may_leave(server));
    EXPECT_EQ(servers.least(), params.scheme.servers);
  }
}

TEST(InStep, OneMayLeaveWhileEnoughAreLeft) {
  InStep servers = mirror(1, 3);
  EXPECT_TRUE(servers.may_leave(2));
  servers.begin_leaving(2);
  EXPECT_EQ(servers.left_out(), std::set<Party>{2});
  EXPECT_EQ(servers.takers(), (Bytes{1, 2, 3})) << "it counts until its absence is recorded";
  EXPECT_EQ(servers.members(), (Bytes{1, 3})) << "but new requests do not use it";
  EXPECT_FALSE(servers.may_leave(1));
  servers.leave(2);
  EXPECT_EQ(servers.takers(), (Bytes{1, 3}));
  EXPECT_FALSE(servers.may_leave(1));
  EXPECT_FALSE(servers.may_leave(2));
}

TEST(InStep, OneThatComesBackCountsWhenItIsRecorded) {
  InStep servers = mirror(1, 3);
  servers.load({2});
  EXPECT_EQ(servers.members(), (Bytes{1, 3}));
  servers.follow(2);
  EXPECT_EQ(servers.takers(), (Bytes{1, 2, 3}));
  EXPECT_EQ(servers.members(), (Bytes{1, 3}));
  EXPECT_EQ(servers.left_out(), std::set<Party>{2});
  servers.begin_joining(2);
  EXPECT_TRUE(servers.left_out().empty());
  EXPECT_EQ(servers.members(), (Bytes{1, 3}));
  EXPECT_FALSE(servers.may_leave(1)) << "not on its account, yet";
  servers.join(2);
  EXPECT_EQ(servers.members(), (Bytes{1, 2, 3}));
  EXPECT_TRUE(servers.may_leave(1));
}

TEST(InStep, MembersTakeTurns) {
  InStep servers = mirror(1, 4);
  servers.load({3});
  std::map<Party, unsigned> times;
  for (std::uint64_t turn = 0; turn < 30; ++turn) {
    const Bytes workers = servers.workers(turn, 2);
    ASSERT_EQ(workers.size(), 2u);
    EXPECT_NE(workers[0], workers[1]);
    for (const Party each : workers) ++times[each];
  }
  EXPECT_EQ(times, (std::map<Party, unsigned>{{1, 20}, {2, 20}, {4, 20}}));
}

TEST(InStep, AVolumeIsOpenedWithAMajorityAndEnoughInStep) {
  InStep three = mirror(1, 3);
  EXPECT_TRUE(three.may_open({1, 3}));
  EXPECT_FALSE(three.may_open({1}));
  three.load({3});
  EXPECT_FALSE(three.may_open({1, 3})) << "one of them lacks something";
  EXPECT_TRUE(three.may_open({1, 2}));

  InStep four = mirror(1, 4);
  four.load({3, 4});
  EXPECT_FALSE(four.may_open({1, 2})) << "half of them is not a majority";
  EXPECT_TRUE(four.may_open({1, 2, 4}));
  EXPECT_EQ(mirror(2, 3).least(), 3u);
}

// A client may open with an old copy of the vault; a server that was last in step then says so.
TEST(InStep, WhoOpensAVolumeMeetsOneOfThoseInStepLast) {
  for (unsigned servers = 2; servers <= 6; ++servers)
    for (unsigned threshold = 1; threshold < servers; ++threshold) {
      const InStep any = mirror(threshold, servers);
      EXPECT_GT(any.least() + any.needed(), servers) << threshold << " of " << servers;
      EXPECT_GT(2 * any.least(), servers);
      EXPECT_GE(any.least(), any.needed());
    }
}

}  // namespace
}  // namespace s3oram
