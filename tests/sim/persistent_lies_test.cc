// A server that tells the same lie every time neither keeps the client busy nor makes it wait for
// ever, and honest servers are not blamed for it alone.
#include "oramcore/protocol/repair_messages.h"
#include "tests/sim/filled_volume.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;
using test::pattern;

class PersistentLies : public test::FilledVolume {
 protected:
  static constexpr BlockId kNeverWritten = 4000;
  static constexpr Party kLiar = 2;

  void SetUp() override {
    FilledVolume::SetUp();
    ASSERT_NO_FATAL_FAILURE(fill());
    settle_evictions();
  }

  static MessageType type_of(const Bytes& message) { return static_cast<MessageType>(message[2]); }
  static ByteSpan body_of(const Bytes& message) {
    return ByteSpan(message).subspan(Rpc::kHeaderSize);
  }
  /// Delivers `body`, which has room for a header, in place of the body of `message`.
  bool deliver(Party from, Party to, const Bytes& message, Bytes body) {
    std::copy_n(message.begin(), Rpc::kHeaderSize, body.begin());
    cluster_.network.deliver(from, to, body);
    return false;
  }
  bool deliver_error(Party from, const Bytes& message, Errc code) {
    Bytes lie(message.begin(), message.begin() + Rpc::kHeaderSize);
    lie[4] = static_cast<std::uint8_t>(code);
    lie[5] = 0;
    lie.insert(lie.end(), {'n', 'o'});
    cluster_.network.deliver(from, kClient, lie);
    return false;
  }
  /// Answers `message` in the name of its receiver, which does not get it.
  bool swallow(Party from, Party to, const Bytes& message) {
    Bytes taken(message.begin(), message.begin() + Rpc::kHeaderSize);
    taken[0] = static_cast<std::uint8_t>(
        message[0] == static_cast<std::uint8_t>(MessageKind::question) ? MessageKind::answer
                                                                       : MessageKind::bulk_answer);
    cluster_.network.deliver(to, from, taken);
    return false;
  }
  Duration now() { return cluster_.clock_of(kClient).now(); }
  std::string trouble(Party server) {
    const auto trouble = cluster_.engine().status().servers[server - 1u].trouble;
    return trouble ? trouble->error.message : "";
  }
  void expect_content(BlockId block) {
    const auto content = cluster_.read(block);
    ASSERT_OK(content);
    EXPECT_EQ(*content, block == kNeverWritten ? Bytes(test::kBlockSize)
                                               : pattern(block, newest_[block], test::kBlockSize));
  }
};
S3O_WITH_EACH_VOLUME(PersistentLies);

// Otherwise the other servers would be asked for a slot that they do not have, and their refusal
// would count against them.
TEST_P(PersistentLies, ASlotThatDoesNotExistIsHeldAgainstTheServerThatListsIt) {
  const auto end = static_cast<std::uint16_t>(cluster_.params().bucket_size);
  for (const std::uint16_t slot : {end, std::uint16_t{60000}}) {
    SCOPED_TRACE(slot);
    std::string of_others;
    unsigned lies = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      for (Party server = 1; server <= cluster_.servers(); ++server)
        if (server != kLiar) of_others += trouble(server);
      if (from != kLiar || to != kClient || !is_answer(message) ||
          type_of(message) != MessageType::digests || message[4] != 0)
        return true;
      auto answer = decode<DigestsAnswer>(body_of(message));
      if (!answer) return true;
      ++lies;
      answer->slots.push_back({slot, Bytes(16, 1)});
      return deliver(from, to, message, encode(*answer));
    };
    const auto healed = cluster_.run(cluster_.engine().scrub({}));
    EXPECT_GT(lies, 0u);
    ASSERT_FALSE(healed);
    EXPECT_NE(healed.error().message.find("server 2 "), std::string::npos)
        << healed.error().message;
    EXPECT_EQ(of_others, "");
    EXPECT_TRUE(trouble(kLiar).starts_with("server 2 is faulty or lies")) << trouble(kLiar);
    cluster_.network.filter = {};
    const auto again = cluster_.run(cluster_.engine().scrub({}));
    ASSERT_OK(again);
    EXPECT_EQ(again->total() + again->lost, 0u);
  }
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// The server says that it has sent its part of an answer to the one that adds up, and has not.
TEST_P(PersistentLies, AnAnswerOfWhichAPartIsNeverSentIsLookedUp) {
  if (cluster_.params().privacy != Privacy::computational) return;
  for (Party liar = 1; liar <= cluster_.params().scheme.quorum(); liar += 2) {
    SCOPED_TRACE(fmt::format("server {} lies", liar));
    unsigned withheld = 0;
    bool named = false;
    std::string blamed;  // an honest server, alone
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      for (Party server = 1; server <= cluster_.servers(); ++server) {
        const std::string text = trouble(server);
        const bool is_shared = text.starts_with("one of servers ");
        if (server == liar)
          named |= is_shared;
        else if (!text.empty() && !is_shared)
          blamed = text;
      }
      if (from != liar || to == kClient || !is_question(message) ||
          type_of(message) != MessageType::masked_share || withheld == 100)
        return true;
      ++withheld;
      return swallow(from, to, message);
    };
    for (const BlockId block : {BlockId{3}, kNeverWritten})
      ASSERT_NO_FATAL_FAILURE(expect_content(block));
    EXPECT_GT(withheld, 0u);
    EXPECT_LT(withheld, 20u);
    EXPECT_TRUE(named);
    EXPECT_EQ(blamed, "");
    cluster_.network.filter = {};
    settle_evictions();
  }
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// A server may have been restarted once, but not with every answer. The client asks it again after
// a pause, and says that it is this server that keeps it waiting.
TEST_P(PersistentLies, RestartsWithoutEndAreFollowedAtLeisureAndNamed) {
  constexpr unsigned kLies = 12;
  for (const Errc code : {Errc::need_open, Errc::unreachable})
    for (const MessageType type :
         {MessageType::retrieve, MessageType::write_root, MessageType::commit,
          MessageType::mark_prepared, MessageType::read_slot}) {
      SCOPED_TRACE(
          fmt::format("type {}, error {}", static_cast<int>(type), static_cast<int>(code)));
      unsigned lies = 0;
      bool named = false;
      Duration first{}, last{};
      cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
        if (from != kLiar || to != kClient || !is_answer(message) || type_of(message) != type ||
            lies == kLies)
          return true;
        last = now();
        if (lies++ == 0) first = last;
        named |= trouble(kLiar).starts_with("server 2 ");
        return deliver_error(from, message, code);
      };
      // If a read fails, all raw shares of its path are read.
      const bool reads_raw = type == MessageType::read_slot;
      for (BlockId block = 0; block < 3; ++block) {
        ASSERT_NO_FATAL_FAILURE(write(block, newest_[block] + 1));
        ASSERT_NO_FATAL_FAILURE(expect_content(block));
      }
      settle_evictions();
      cluster_.network.filter = {};
      if (type == MessageType::write_root) {
        EXPECT_EQ(lies, kLies);
      }
      if (lies < kLies || reads_raw) continue;
      EXPECT_GE(last - first, 3s);
      EXPECT_TRUE(named);
      ASSERT_EQ(cluster_.engine().status().failure, "");
      ASSERT_FALSE(cluster_.engine().status().evictions_stopped);
    }
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// The server never does its part of a retrieval, and always gives a reason that may pass.
TEST_P(PersistentLies, ARetrievalThatOneServerNeverDoesIsLookedUp) {
  for (const Errc code : {Errc::need_open, Errc::unreachable}) {
    unsigned lies = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from != kLiar || lies == 500) return true;
      if (is_question(message) && type_of(message) == MessageType::masked_share)
        return swallow(from, to, message);
      if (to != kClient || !is_answer(message) || type_of(message) != MessageType::retrieve)
        return true;
      ++lies;
      return deliver_error(from, message, code);
    };
    for (const BlockId block : {BlockId{3}, kNeverWritten})
      ASSERT_NO_FATAL_FAILURE(expect_content(block));
    EXPECT_GT(lies, 0u);
    EXPECT_LT(lies, 100u);
    EXPECT_TRUE(trouble(kLiar).starts_with("server 2 ")) << trouble(kLiar);
    cluster_.network.filter = {};
    settle_evictions();
  }
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// Nothing depends on marks until a repair, so an eviction does not wait for them for long.
TEST_P(PersistentLies, MarksThatNeverComeAreDoneWithout) {
  unsigned withheld = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const bool drops = from == kLiar && to == kClient && is_answer(message) &&
                       type_of(message) == MessageType::mark_prepared;
    withheld += drops;
    return !drops;
  };
  const Duration begun = now();
  const std::uint64_t evictions = cluster_.engine().status().evictions;
  for (BlockId block = 0; block < 6; ++block)
    ASSERT_NO_FATAL_FAILURE(write(block, newest_[block] + 1));
  settle_evictions();
  const std::uint64_t more = cluster_.engine().status().evictions - evictions;
  EXPECT_GE(more, 2u);
  EXPECT_LT(now() - begun, (more + 1) * 70s);
  EXPECT_EQ(withheld > 0, cluster_.params().security == Security::malicious);
  cluster_.network.filter = {};
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

}  // namespace
}  // namespace s3oram
