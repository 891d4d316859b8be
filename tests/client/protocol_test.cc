// Tests single steps of the protocol, driven by hand. (Random cases are in tests/sim.)
#include <gtest/gtest.h>

#include "serverd/store/bucket_store.h"
#include "tests/harness/volumes.h"
#include "tests/serverd/oram/strangers.h"

namespace s3oram {
namespace {

using test::Cluster;
using test::pattern;
using test::type_of;
using test::u16_at;

class Protocol : public test::EachEvictor {};
S3O_WITH_EACH_EVICTOR(Protocol);

TEST_P(Protocol, AnAttemptIsNeverBegunTwice) {
  Cluster cluster(test::safe_volume(GetParam(), 2), 31);
  ASSERT_OK(cluster.open_client());
  // The first Prepare fails at the server that gets it, because a peer refuses its subshares. Then
  // the same Prepare comes again.
  Bytes prepare;
  std::size_t subshares = 0;
  cluster.network.filter = [&](Party from, Party to, const Bytes& message) {
    const int type = message[2];
    if (from == kClient && is_question(message) && type == 6) {
      if (to == 1) prepare = message;
      return to == 1;  // the other servers never get theirs
    }
    if (from == 1 && is_question(message) && type == 10) ++subshares;
    return true;
  };
  for (BlockId block = 0; block < 2; ++block)
    cluster.engine().write(block, pattern(block, 1, 512), [](Status) {});
  cluster.run_until([&] { return subshares == 2; });
  cluster.settle();
  cluster.kill_server(1);
  cluster.start_server(1);
  // The client opens the session again, which tells it that the server was restarted.
  std::size_t opened = 0;
  subshares = 0;
  cluster.network.filter = [&](Party from, Party to, const Bytes& message) {
    const int type = message[2];
    if (from == kClient && is_question(message) && type == 8) return false;  // no Discard arrives
    if (from == 1 && is_answer(message) && type == 3) ++opened;
    if (from == 1 && is_question(message) && type == 10) ++subshares;
    return from != kClient || to == 1;
  };
  cluster.run_until([&] { return opened > 0; });
  cluster.settle();
  std::optional<std::uint8_t> code;
  cluster.network.filter = [&](Party from, Party to, const Bytes& message) {
    const int type = message[2];
    if (from == 1 && is_answer(message) && type == 6) code = message[4];
    if (from == 1 && is_question(message) && type == 10) ++subshares;
    return from != kClient || (to == 1 && type == 6);
  };
  prepare[6] = 2;  // as if it were meant for the server after its restart
  cluster.inject(kClient, 1, prepare);
  cluster.settle();
  ASSERT_TRUE(code.has_value()) << "it should refuse immediately";
  EXPECT_EQ(*code, static_cast<int>(Errc::failed));
  EXPECT_EQ(subshares, 0u) << "fresh subshares under an old attempt";
  cluster.network.filter = {};
  for (BlockId block = 0; block < 2; ++block) {
    auto got = cluster.read(block);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, pattern(block, 1, 512));
  }
}

// Requests and their answers use two connections. A request made while the session was opened again
// at a restarted server may be refused only after the opening; that is not a second restart.
TEST_P(Protocol, ALateRefusalIsNoSecondRestart) {
  Cluster cluster(test::safe_volume(GetParam(), 16), 37);
  ASSERT_OK(cluster.open_client());
  for (BlockId block = 0; block < 4; ++block)
    ASSERT_OK(cluster.write(block, pattern(block, 1, 512)));
  cluster.settle();
  cluster.kill_server(1);
  cluster.start_server(1);
  std::vector<Bytes> late;
  std::size_t refused = 0, opened = 0, ended = 0;
  bool opens = false;
  cluster.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (is_question(message) && to == 1 && type_of(message) == MessageType::open) return opens;
    if (is_question(message) || from != 1) return true;
    opened += type_of(message) == MessageType::open;
    const bool refuses = u16_at(message, 4) == static_cast<int>(Errc::need_open);
    if (opened > 0 || !refuses || ++refused == 1) return true;
    late.push_back(message);
    return false;
  };
  cluster.network.on_arrival = [&](Party from, Party, const Bytes& message) {
    if (from != 1 || is_question(message) || type_of(message) != MessageType::open) return;
    for (const Bytes& refusal : std::exchange(late, {})) cluster.inject(1, kClient, refusal);
  };
  for (BlockId block = 0; block < 4; ++block) {
    cluster.engine().read(block, [&, block](Result<Bytes> got) {
      ++ended;
      ASSERT_OK(got);
      EXPECT_EQ(*got, pattern(block, 1, 512));
    });
    cluster.settle();
  }
  opens = true;
  cluster.run_until([&] { return ended == 4 || opened > 20; });
  EXPECT_EQ(opened, 1u);
}

// A root slot of one server is damaged on its disk. No eviction may spread the damage to the
// others.
TEST_P(Protocol, ADamagedRootSlotIsHealedBeforeAnEviction) {
  Cluster cluster(test::safe_volume(GetParam(), 4), 32);
  ASSERT_OK(cluster.open_client());
  for (BlockId block = 0; block < 3; ++block)
    ASSERT_OK(cluster.write(block, pattern(block, 1, 512)));
  ASSERT_OK(cluster.commit());
  cluster.stop_server(2);
  // The root's second slot.
  cluster.disk(2).rot(cluster.slots(),
                      512 + VolumeParams::kSealOverhead + BucketVersion::kTrailer + 100, 0x40);
  cluster.start_server(2);
  std::size_t healed = 0, committed = 0;
  bool stop_healing = true;
  cluster.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from != kClient || !is_question(message)) return true;
    const auto type = static_cast<MessageType>(message[2]);
    committed += type == MessageType::commit;
    if (type != MessageType::heal_slot && type != MessageType::mend) return true;
    // If servers may lie, every one gets a fresh share.
    EXPECT_TRUE(to == 2 || cluster.params().security == Security::malicious);
    ++healed;
    return !stop_healing;
  };
  cluster.engine().write(3, pattern(3, 1, 512), [](Status) {});
  cluster.run_until([&] { return healed > 1 || committed > 0; });
  EXPECT_EQ(committed, 0u) << "an eviction computed with a damaged share";
  stop_healing = false;
  cluster.run_until([&] { return committed > 0; });
  for (BlockId block = 0; block < 4; ++block) {
    auto got = cluster.read(block);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, pattern(block, 1, 512));
  }
}

// A retrieval may still be under way when the servers have committed.
TEST_P(Protocol, TheFormerTreeVersionIsThereUntilItIsReleased) {
  Cluster cluster(test::safe_volume(GetParam(), 2), 33);
  ASSERT_OK(cluster.open_client());
  ASSERT_OK(cluster.write(0, pattern(0, 1, 512)));
  Bytes retrieval, answer, answer_again;
  std::size_t flipped = 0, released = 0;
  bool release = false;
  std::uint8_t code = 0;
  cluster.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    const bool asks = is_question(message);
    if (asks && to == 1 && type == MessageType::retrieve) retrieval = message;
    if (!asks && from == 1 && type == MessageType::retrieve) {
      (answer.empty() ? answer : answer_again) = message;
      code = message[4];
    }
    flipped += !asks && type == MessageType::commit;
    released += !asks && type == MessageType::release;
    return release || type != MessageType::release;
  };
  cluster.engine().write(1, pattern(1, 1, 512), [](Status) {});
  cluster.run_until([&] { return flipped == 3; });
  cluster.settle();
  retrieval[8] ^= 1;  // another number: not the same request again
  cluster.inject(kClient, 1, retrieval);
  cluster.settle();
  ASSERT_FALSE(answer_again.empty());
  EXPECT_EQ(code, 0) << std::string(answer_again.begin() + Rpc::kHeaderSize, answer_again.end());
  EXPECT_EQ(Bytes(answer.begin() + Rpc::kHeaderSize, answer.end()),
            Bytes(answer_again.begin() + Rpc::kHeaderSize, answer_again.end()));
  release = true;
  cluster.run_until([&] { return released == 3; });
  cluster.inject(kClient, 1, retrieval);
  cluster.settle();
  EXPECT_EQ(code, static_cast<int>(Errc::former_view));
}

}  // namespace
}  // namespace s3oram
