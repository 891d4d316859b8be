// A client's state made anew (Rebuild) while one server lies about where it stands: what the others
// have is found as it is, or the lie is refused, and nothing at the others has changed for good.
#include "oramcore/protocol/repair_messages.h"
#include "tests/sim/filled_volume.h"

namespace s3oram {
namespace {

using test::pattern;

class LyingServer : public test::FilledVolume {
 protected:
  void SetUp() override {
    FilledVolume::SetUp();
    ASSERT_NO_FATAL_FAILURE(fill());
    ASSERT_OK(cluster_.commit());
    cluster_.kill_client();
  }
  /// From now on the server's answers to Survey are changed by `lie`.
  void lie(Party liar, std::function<void(SurveyAnswer&)> lie) {
    cluster_.network.filter = [this, liar, lie](Party from, Party to, const Bytes& message) {
      if (from != liar || to != kClient || !is_answer(message) ||
          static_cast<MessageType>(message[2]) != MessageType::survey)
        return true;
      auto answer = decode<SurveyAnswer>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      if (!answer) return true;
      lie(*answer);
      Bytes changed = encode(*answer);
      std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
      cluster_.network.deliver(from, to, changed);
      return false;
    };
  }
  void tell_the_truth() { cluster_.network.filter = {}; }
  /// It is refused, and in the end made anew without the lie.
  void expect_refused(const std::string& word) {
    const auto rebuilt = cluster_.rebuild_client();
    ASSERT_FALSE(rebuilt);
    EXPECT_NE(rebuilt.error().message.find(word), std::string::npos) << rebuilt.error().message;
    tell_the_truth();
    cluster_.lose_client();
    ASSERT_OK(cluster_.rebuild_client());
    go_on();
  }
};
S3O_WITH_EACH_SCHEME(LyingServer);

TEST_P(LyingServer, WritesThatItInventsHideNone) {
  cluster_.lose_client();
  lie(2, [](SurveyAnswer& answer) {
    for (std::uint64_t& stamp : answer.root) ++stamp;
  });
  const auto rebuilt = cluster_.rebuild_client();
  ASSERT_OK(rebuilt);
  EXPECT_EQ(rebuilt->state.positions.mapped(), kBlocks);
  tell_the_truth();
  go_on();
}

// Else the names of a sound vault.db would give way to those of an older backup.
TEST_P(LyingServer, NeitherMakesTheFormerStateAnOldOne) {
  lie(2, [](SurveyAnswer& answer) {
    for (std::uint64_t& stamp : answer.root) ++stamp;
  });
  const auto rebuilt = cluster_.rebuild_client(test::Cluster::Rebuilding::beside);
  ASSERT_OK(rebuilt);
  EXPECT_TRUE(rebuilt->former_was_last);
  tell_the_truth();
  go_on();
}

TEST_P(LyingServer, AnEpochThatNobodyCouldFollowIsRefused) {
  cluster_.lose_client();
  for (const std::uint64_t epoch : {kMostEpoch - 1, ~std::uint64_t{0} - 1}) {
    SCOPED_TRACE(epoch);
    lie(2, [epoch](SurveyAnswer& answer) { answer.session.epoch = epoch; });
    const auto rebuilt = cluster_.rebuild_client();
    ASSERT_FALSE(rebuilt);
    EXPECT_NE(rebuilt.error().message.find("server 2"), std::string::npos)
        << rebuilt.error().message;
    cluster_.lose_client();
  }
  expect_refused("server 2");
}

// Else honest servers would be taken for set back, and the advice would be to empty their stores.
// (One more is believed if the others have prepared that eviction: then it may have been decided.)
TEST_P(LyingServer, ATreeVersionThatNoOtherKnowsIsHeldAgainstIt) {
  cluster_.lose_client();
  for (const std::uint64_t more : {2, 1000}) {
    lie(2, [more](SurveyAnswer& answer) { answer.tree_version += more; });
    const auto rebuilt = cluster_.rebuild_client();
    ASSERT_FALSE(rebuilt);
    EXPECT_EQ(rebuilt.error().code, Errc::servers_disagree) << rebuilt.error().message;
    EXPECT_TRUE(rebuilt.error().message.starts_with("server 2 ")) << rebuilt.error().message;
    cluster_.lose_client();
  }
  tell_the_truth();
  ASSERT_OK(cluster_.rebuild_client());
  go_on();
}

TEST_P(LyingServer, OneServerCannotMakeTheVaultAnOldCopy) {
  lie(2, [](SurveyAnswer& answer) { answer.tree_version += 1; });
  auto opened = cluster_.open_client();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::servers_disagree) << opened.error().message;
  EXPECT_TRUE(opened.error().message.starts_with("server 2 ")) << opened.error().message;
  cluster_.kill_client();
  lie(2, [](SurveyAnswer& answer) { answer.session.epoch += 5; });
  opened = cluster_.open_client();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::servers_disagree) << opened.error().message;
  EXPECT_TRUE(opened.error().message.starts_with("server 2 ")) << opened.error().message;
  cluster_.kill_client();
  tell_the_truth();
  go_on();
}

TEST_P(LyingServer, AnotherHeightIsRefused) {
  cluster_.lose_client();
  const Party last = cluster_.servers();
  lie(last, [](SurveyAnswer& answer) { --answer.height; });
  expect_refused("height");
}

TEST_P(LyingServer, AnImpossibleHeightIsRefused) {
  cluster_.lose_client();
  lie(cluster_.servers(), [](SurveyAnswer& answer) { answer.height = 60; });
  expect_refused("nonsense");
}

}  // namespace
}  // namespace s3oram
