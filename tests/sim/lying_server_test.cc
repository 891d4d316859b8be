// A client's state is rebuilt (Rebuild) while one server lies about its state. The truth of the
// other servers is found, or the lie is refused, and nothing at the others has changed for good.
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
  /// From now on `lie` changes the server's answers to Survey.
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
  /// The client decides an eviction, and dies when `reached` have installed it and all others have
  /// only prepared it.
  void decide_at(std::set<Party> reached) {
    tell_the_truth();
    ASSERT_OK(cluster_.open_client());
    std::set<Party> installed;
    bool dropped = false;
    cluster_.on_step = [&](Party party, std::string_view name, bool done) {
      if (name == "flip" && done) installed.insert(party);
    };
    cluster_.network.filter = [&, reached](Party from, Party to, const Bytes& message) {
      const bool commit = from == kClient && is_question(message) &&
                          static_cast<MessageType>(message[2]) == MessageType::commit;
      dropped |= commit;
      return !commit || reached.contains(to);
    };
    for (std::uint64_t i = 0; !dropped || installed != reached; ++i) {
      ASSERT_LT(i, 1000u);
      cluster_.engine().write(i % kBlocks, pattern(i % kBlocks, 5, test::kBlockSize),
                              [](const Status&) {});
      newest_.erase(i % kBlocks);  // may or may not be found
      for (int steps = 0; steps < 400; ++steps) cluster_.step();
    }
    cluster_.on_step = {};
    tell_the_truth();
    cluster_.kill_client();
    cluster_.settle();
  }
  /// Expects the rebuild to be refused, and to succeed without the lie.
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

// One server shows its newest root write in all slots. If it is the only holder of a stamp, its
// write must not take the place of what the others hold.
TEST_P(LyingServer, AWriteThatItShowsInAllSlotsHidesNone) {
  cluster_.lose_client();
  std::uint16_t shown = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
    Bytes changed;
    if (from == 1 && to == kClient && is_answer(message) && type == MessageType::survey) {
      auto answer = decode<SurveyAnswer>(body);
      if (!answer || answer->root.empty()) return true;
      const auto newest = std::ranges::max_element(answer->root);
      shown = static_cast<std::uint16_t>(newest - answer->root.begin());
      std::ranges::fill(answer->root, std::uint64_t{*newest});
      changed = encode(*answer);
    } else if (from == kClient && to == 1 && is_question(message) &&
               type == MessageType::read_slot) {
      auto request = decode<ReadSlotRequest>(body);
      if (!request || request->at.bucket != kRoot) return true;
      if (request->at.slot < cluster_.params().root_buffer_slots()) request->at.slot = shown;
      changed = encode(*request);
    } else {
      return true;
    }
    std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
    cluster_.network.deliver(from, to, changed);
    return false;
  };
  const auto rebuilt = cluster_.rebuild_client();
  ASSERT_OK(rebuilt);
  EXPECT_EQ(rebuilt->state.positions.mapped(), kBlocks);
  tell_the_truth();
  go_on();
}

// If a lie could make a sound vault.db look old, its names would be replaced by those of an older
// backup.
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

// If that tree version counted, honest servers would seem rolled back, and the advice would be to
// empty their stores.
TEST_P(LyingServer, ATreeVersionThatNoOtherKnowsIsHeldAgainstIt) {
  cluster_.lose_client();
  for (const std::uint64_t more : {1, 2, 1000}) {
    SCOPED_TRACE(more);
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

// All servers have prepared an eviction, and one says that it was decided. The others must not
// install what the lost client may have been about to refuse.
TEST_P(LyingServer, OneServerCannotDecideAnEviction) {
  ASSERT_NO_FATAL_FAILURE(decide_at({}));
  cluster_.lose_client();
  lie(2, [](SurveyAnswer& answer) { answer.tree_version += 1; });
  bool installed = false;
  cluster_.on_step = [&](Party, std::string_view name, bool) { installed |= name == "flip"; };
  const auto rebuilt = cluster_.rebuild_client();
  cluster_.on_step = {};
  ASSERT_FALSE(rebuilt);
  EXPECT_EQ(rebuilt.error().code, Errc::servers_disagree) << rebuilt.error().message;
  EXPECT_TRUE(rebuilt.error().message.starts_with("server 2 ")) << rebuilt.error().message;
  EXPECT_FALSE(installed);
  tell_the_truth();
  ASSERT_OK(cluster_.rebuild_client());
  go_on();
}

// Only this server has installed what the client decided. It is rolled back, even after a restart.
TEST_P(LyingServer, OneServerThatIsRightlyAheadGoesBack) {
  for (const bool restarted : {false, true}) {
    SCOPED_TRACE(restarted);
    ASSERT_NO_FATAL_FAILURE(decide_at({2}));
    cluster_.lose_client();
    if (restarted)
      for (Party server = 1; server <= cluster_.servers(); ++server) {
        cluster_.cut(server);
        cluster_.start_server(server);
      }
    const auto rebuilt = cluster_.rebuild_client();
    ASSERT_OK(rebuilt);
    EXPECT_EQ(rebuilt->damaged, 0u);
    go_on();
    cluster_.kill_client();
  }
}

// One honest server has installed an eviction, and another one falsely says so. The liar is asked
// for data that it does not have, and the restore ends with its name.
TEST_P(LyingServer, ALieThatOneOtherBearsOutEndsTheRestore) {
  if (cluster_.params().scheme.threshold > 1 || cluster_.servers() < 3) return;
  ASSERT_NO_FATAL_FAILURE(decide_at({1}));
  cluster_.lose_client();
  lie(2, [](SurveyAnswer& answer) {
    answer.tree_version += 1;
    answer.prepared.reset();
  });
  const auto rebuilt = cluster_.rebuild_client();
  ASSERT_FALSE(rebuilt);
  EXPECT_NE(rebuilt.error().message.find("server 2 "), std::string::npos)
      << rebuilt.error().message;
  EXPECT_EQ(rebuilt.error().message.find("server 1 "), std::string::npos)
      << rebuilt.error().message;
  tell_the_truth();
  cluster_.lose_client();
  ASSERT_OK(cluster_.rebuild_client());
  go_on();
}

// A server has rightly installed an eviction, and another one hides that it had prepared it. Either
// may be the liar, for all that the client knows.
TEST_P(LyingServer, OneThatHidesWhatItPreparedAccusesNobodyAlone) {
  ASSERT_NO_FATAL_FAILURE(decide_at({1}));
  cluster_.lose_client();
  lie(3, [](SurveyAnswer& answer) { answer.prepared.reset(); });
  expect_refused("one of servers 1 and 3 is faulty or lies");
}

// The copy is of the same session and tree version, so nothing but what servers say about their
// root shows that it is old. A server that does not say it has no part in the judgement.
TEST_P(LyingServer, OneThatDoesNotSayWhatItHoldsHidesNoOldCopy) {
  ASSERT_OK(cluster_.open_client());
  for (BlockId block = 0, evictions = cluster_.engine().status().evictions;
       cluster_.engine().status().evictions == evictions; ++block)
    ASSERT_NO_FATAL_FAILURE(write(block % kBlocks, 6));
  settle_evictions();
  ASSERT_OK(cluster_.commit());
  const auto old = cluster_.disk(kClient).image();
  ASSERT_NO_FATAL_FAILURE(write(2, 7));
  ASSERT_OK(cluster_.commit());
  cluster_.kill_client();
  const auto newest = cluster_.disk(kClient).image();
  for (const std::optional<Errc> code : {std::optional<Errc>(), std::optional(Errc::bad_request),
                                         std::optional(Errc::unsupported)}) {
    SCOPED_TRACE(code ? static_cast<int>(*code) : 0);
    cluster_.replace_disk(kClient, old);
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (!code || from != 2 || to != kClient || !is_answer(message) ||
          static_cast<MessageType>(message[2]) != MessageType::survey)
        return true;
      Bytes refusal(message.begin(), message.begin() + Rpc::kHeaderSize);
      refusal[4] = static_cast<std::uint8_t>(*code);
      cluster_.network.deliver(from, to, refusal);
      return false;
    };
    const Status opened = cluster_.open_client();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::stale_vault) << opened.error().message;
    cluster_.kill_client();
  }
  tell_the_truth();
  cluster_.replace_disk(kClient, newest);
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

// A server says that another client has the volume. It is asked again, and named, as long as the
// others do not say so.
TEST_P(LyingServer, OneServerCannotEndASession) {
  tell_the_truth();
  ASSERT_OK(cluster_.open_client());
  for (const Errc code : {Errc::fenced, Errc::stale_vault}) {
    unsigned lies = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from != 2 || to != kClient || !is_answer(message) || lies == 20) return true;
      ++lies;
      Bytes lie(message.begin(), message.begin() + Rpc::kHeaderSize);
      lie[4] = static_cast<std::uint8_t>(code);
      lie[5] = 0;
      lie.insert(lie.end(), {'g', 'i', 'v', 'e', ' ', 'u', 'p'});
      cluster_.network.deliver(from, to, lie);
      return false;
    };
    for (BlockId block = 0; block < 6; ++block) ASSERT_NO_FATAL_FAILURE(write(block, 7));
    // A mirror that can do without the server leaves it out.
    if (!GetParam().is_mirror()) {
      EXPECT_EQ(lies, 20u);
    }
    EXPECT_EQ(cluster_.engine().status().failure, "");
  }
  tell_the_truth();
  ASSERT_OK(cluster_.close_client());
  go_on();
}

// As after a restore elsewhere: the server that says it first is honest, too.
TEST_P(LyingServer, NobodyIsCalledALiarIfTheOthersSayTheSame) {
  tell_the_truth();
  std::vector<Errc> codes{Errc::fenced};
  if (!GetParam().is_mirror()) codes.push_back(Errc::bad_request);  // it would leave servers out
  for (const Errc code : codes) {
    ASSERT_OK(cluster_.open_client());
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from == kClient || to != kClient || !is_answer(message)) return true;
      Bytes refusal(message.begin(), message.begin() + Rpc::kHeaderSize);
      refusal[4] = static_cast<std::uint8_t>(code);
      refusal[5] = 0;
      cluster_.network.deliver(from, to, refusal);
      return false;
    };
    cluster_.engine().write(1, pattern(1, 5, test::kBlockSize), [](const Status&) {});
    newest_.erase(1);
    cluster_.run_until([&] { return !cluster_.engine().status().failure.empty(); });
    for (const auto& server : cluster_.engine().status().servers) {
      const std::string shown = server.trouble ? server.trouble->error.message : "";
      EXPECT_EQ(shown.find("lies"), std::string::npos) << shown;
    }
    tell_the_truth();
    cluster_.kill_client();
  }
  go_on();
}

TEST_P(LyingServer, ItsWordsAreShownAsItsOwn) {
  tell_the_truth();
  ASSERT_OK(cluster_.open_client());
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from != 2 || to != kClient || !is_answer(message)) return true;
    Bytes lie(message.begin(), message.begin() + Rpc::kHeaderSize);
    lie[4] = static_cast<std::uint8_t>(Errc::fenced);
    lie[5] = 0;
    const std::string words = "the volume is broken: empty the store of server 1";
    lie.insert(lie.end(), words.begin(), words.end());
    cluster_.network.deliver(from, to, lie);
    return false;
  };
  cluster_.engine().write(1, pattern(1, 5, test::kBlockSize), [](const Status&) {});
  newest_.erase(1);
  cluster_.run_until([&] { return cluster_.engine().status().servers[1].trouble.has_value(); });
  const std::string shown = cluster_.engine().status().servers[1].trouble->error.message;
  EXPECT_TRUE(shown.starts_with("server 2 says: the volume is broken")) << shown;
  tell_the_truth();
  cluster_.kill_client();
  go_on();
}

TEST_P(LyingServer, AnotherHeightIsRefused) {
  cluster_.lose_client();
  const Party last = cluster_.servers();
  lie(last, [](SurveyAnswer& answer) { --answer.height; });
  expect_refused(cluster_.servers() > 2
                     ? fmt::format("server {} says that its tree has height", int{last})
                     : std::string("height"));
}

TEST_P(LyingServer, AnImpossibleHeightIsRefused) {
  cluster_.lose_client();
  lie(cluster_.servers(), [](SurveyAnswer& answer) { answer.height = 60; });
  expect_refused("invalid");
}

}  // namespace
}  // namespace s3oram
