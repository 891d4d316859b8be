// Evictions of a mirror in which a server is away, or comes back meanwhile.
#include "tests/sim/mirror_without_one.h"

namespace s3oram {
namespace {

using test::Absence;
using test::AwayOfThree;
using test::AwayTest;
using test::kMostPause;

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

}  // namespace
}  // namespace s3oram
