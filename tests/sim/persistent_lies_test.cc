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

}  // namespace
}  // namespace s3oram
