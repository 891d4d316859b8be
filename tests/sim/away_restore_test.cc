// Restores of a lost vault.db, and of a lost store, in a mirror in which a server is away, is
// behind, or lies.
#include "oramcore/protocol/repair_messages.h"
#include "tests/sim/mirror_without_one.h"

namespace s3oram {
namespace {

using test::Absence;
using test::AwayOfThree;
using test::AwayTest;
using test::kMostPause;
using test::pattern;

// The client is lost when one of two servers in step has installed an eviction, while a third
// server is far behind.
TEST_P(AwayOfThree, ARestoreInTheMiddleOfADecisionDoesNotAskTheOneThatIsBehind) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(last, Absence::killed);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  work();
  ASSERT_OK(cluster_.commit());
  bool installed = false;
  cluster_.network.filter = [](Party from, Party to, const Bytes& message) {
    return from != kClient || to == 1 || !is_question(message) ||
           static_cast<MessageType>(message[2]) != MessageType::commit;
  };
  cluster_.on_step = [&](Party party, std::string_view name, bool done) {
    installed = installed || (party == 1 && name == "flip" && done);
  };
  for (BlockId block = 0; block < 6; ++block)
    cluster_.engine().write(block, pattern(block, newest_[block], test::kBlockSize),
                            [](const Status&) {});
  ASSERT_NO_FATAL_FAILURE(await([&] { return installed; }));
  cluster_.on_step = {};
  cluster_.network.filter = {};
  cluster_.kill_client();
  cluster_.settle();
  come_back(last);
  cluster_.lose_client();
  ASSERT_OK(cluster_.rebuild_client());
  go_on();
  expect_equal_replicas();
}

// One of the two servers that have everything shows, in place of each slot, the next slot of the
// bucket: as new as the right one, and sealed as well.
TEST_P(AwayOfThree, ARestoreBindsWhatOneServerShowsToItsPlace) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(last, Absence::killed);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  work();
  work();
  ASSERT_OK(cluster_.commit());
  settle_evictions();
  cluster_.kill_client();
  cluster_.settle();
  come_back(last);
  cluster_.lose_client();
  const unsigned z = cluster_.params().bucket_size;
  unsigned lies = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
    Bytes changed;
    if (from == 1 && to == kClient && is_answer(message) && type == MessageType::heads) {
      auto answer = decode<HeadsAnswer>(body);
      if (!answer || answer->slots.size() != z) return true;
      for (std::size_t i = 0; i + 1 < answer->slots.size(); ++i)
        std::swap(answer->slots[i].head, answer->slots[i + 1].head);
      changed = encode(*answer);
      ++lies;
    } else if (from == kClient && to == 1 && is_question(message) &&
               type == MessageType::read_slot) {
      auto request = decode<ReadSlotRequest>(body);
      if (!request || request->at.bucket == kRoot) return true;
      request->at.slot = static_cast<std::uint16_t>((request->at.slot + 1) % z);
      changed = encode(*request);
    } else {
      return true;
    }
    std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
    cluster_.network.deliver(from, to, changed);
    return false;
  };
  const auto rebuilt = cluster_.rebuild_client();
  cluster_.network.filter = {};
  ASSERT_OK(rebuilt);
  EXPECT_GT(lies, 0u);
  go_on();
  expect_equal_replicas();
}

// Before the client was lost, one server received a root write that the others did not. It shows
// this write in place of the previous one, which all have: as sealed as that one, and newer.
TEST_P(AwayOfThree, ARestoreTakesNoRootWriteForThatOfAnotherSlot) {
  constexpr Party kLiar = 1;
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_NO_FATAL_FAILURE(begin_group());
  struct Write {
    std::uint16_t slot = 0;
    std::uint64_t access = 0;
  };
  Write last, withheld;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    if (from == kClient && is_question(message) && type == MessageType::write_root) {
      const auto write = decode<WriteRootRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      if (!write) return true;
      last = {root_slot(write->write_number, cluster_.params().evict_every), write->access};
      const bool given = std::ranges::any_of(
          write->parts, [](const SharePart& part) { return !part.content.empty(); });
      if (withheld.access == 0 && to == kLiar && given) withheld = last;
    }
    return withheld.access == 0 || type != MessageType::relay;
  };
  Write shown;  // the last one that counts
  while (withheld.access == 0) {
    shown = last;
    const BlockId block = ++generation_ % kBlocks;
    bool written = false;
    cluster_.engine().write(block, pattern(block, generation_, test::kBlockSize),
                            [&](const Status& status) { written = status.has_value(); });
    cluster_.run_until([&] { return written || withheld.access != 0; });
    if (written) newest_[block] = generation_;
    cluster_.settle();
  }
  ASSERT_NE(shown.access, 0u);
  ASSERT_NE(shown.slot, withheld.slot);
  cluster_.kill_client();
  cluster_.settle();
  cluster_.lose_client();
  unsigned lies = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
    Bytes changed;
    if (from == kLiar && to == kClient && is_answer(message) && type == MessageType::survey) {
      auto answer = decode<SurveyAnswer>(body);
      if (!answer) return true;
      answer->root[shown.slot] = withheld.access;
      answer->root[withheld.slot] = 0;
      changed = encode(*answer);
      ++lies;
    } else if (from == kClient && to == kLiar && is_question(message) &&
               type == MessageType::read_slot) {
      auto request = decode<ReadSlotRequest>(body);
      if (!request || request->at.bucket != kRoot || request->at.slot != shown.slot) return true;
      request->at.slot = withheld.slot;
      changed = encode(*request);
    } else {
      return true;
    }
    std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
    cluster_.network.deliver(from, to, changed);
    return false;
  };
  const auto rebuilt = cluster_.rebuild_client();
  cluster_.network.filter = {};
  ASSERT_OK(rebuilt);
  EXPECT_GT(lies, 0u);
  go_on();
  expect_equal_replicas();
}

/// The servers that may lie show zeros wherever one other server has content, in a restore with or
/// without the last server, which is behind.
class ZerosShown : public AwayTest {
 protected:
  void restore(bool with_last);
};
INSTANTIATE_TEST_SUITE_P(Volumes, ZerosShown,
                         testing::Values(test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 3}),
                                         test::mirror_volume(6, 2, min_stash_slots(6, 2), {2, 4}),
                                         test::mirror_volume(6, 2, min_stash_slots(6, 2), {1, 4})),
                         [](const auto& test) {
                           return fmt::format("T{}L{}", test.param.scheme.threshold,
                                              test.param.scheme.servers);
                         });

void ZerosShown::restore(bool with_last) {
  const Party last = cluster_.servers(), liars = cluster_.params().scheme.threshold;
  const auto lies_of = [=](Party server) { return server > 1 && server <= 1 + liars; };
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(last, Absence::killed);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  work();
  ASSERT_OK(cluster_.commit());
  settle_evictions();
  cluster_.kill_client();
  cluster_.settle();
  if (with_last) come_back(last);
  cluster_.lose_client();
  unsigned lies = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    if (!lies_of(from) || to != kClient || !is_answer(message) || message[4] != 0) return true;
    Bytes changed(message.begin(), message.begin() + Rpc::kHeaderSize);
    if (type == MessageType::heads)
      changed = encode(HeadsAnswer{});
    else if (type == MessageType::read_slot)
      changed.resize(message.size());
    else
      return true;
    std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
    ++lies;
    cluster_.network.deliver(from, to, changed);
    return false;
  };
  const auto rebuilt = cluster_.rebuild_client();
  cluster_.network.filter = {};
  ASSERT_OK(rebuilt);
  EXPECT_GT(lies, 0u);
  EXPECT_EQ(rebuilt->state.left_out.empty(), with_last);
  go_on();
}

TEST_P(ZerosShown, AreNotTakenForWhatOneServerHolds) { restore(true); }
TEST_P(ZerosShown, AreNotTakenIfOneIsAway) { restore(false); }

// The client is lost while one server is away or has lost its store. That server was in step, and
// may have been about to install an eviction.
TEST_P(AwayTest, ARestoreDoesWithoutAnyOneOfThem) {
  ASSERT_NO_FATAL_FAILURE(fill());
  for (Party server = 1; server <= cluster_.servers(); ++server)
    for (const Absence how : absences_of(server)) {
      SCOPED_TRACE(fmt::format("server {}, how {}", server, static_cast<int>(how)));
      cluster_.kill_client();
      go_away(server, how);
      if (how == Absence::wiped) come_back(server);
      cluster_.lose_client();
      const auto rebuilt = cluster_.rebuild_client();
      ASSERT_OK(rebuilt);
      EXPECT_EQ(rebuilt->damaged, 0u);
      EXPECT_EQ(rebuilt->state.left_out, std::set<Party>{server});
      ASSERT_OK(cluster_.open_client());
      ASSERT_NO_FATAL_FAILURE(check_contents());
      EXPECT_LT(work(), kMostPause);
      come_back(server);
      ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
    }
  expect_equal_replicas();
  ASSERT_OK(cluster_.close_client());
  go_on();
}

// Nobody who takes part in the restore knows the session of the server that is away.
TEST_P(AwayTest, OneThatWasAwayForLongComesBackAfterARestore) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(last, Absence::killed);
  for (int session = 0; session < 2; ++session) {
    work();
    ASSERT_OK(cluster_.close_client());
    ASSERT_OK(cluster_.open_client());
  }
  cluster_.kill_client();
  cluster_.lose_client();
  ASSERT_OK(cluster_.rebuild_client());
  come_back(last);
  ASSERT_OK(cluster_.open_client());
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  ASSERT_OK(cluster_.close_client());
  go_on();
}

// Only the server that is away has installed the last eviction, and opened the last session. The
// restore takes the eviction back.
TEST_P(AwayOfThree, OneThatIsAheadComesBackAfterARestore) {
  const Party ahead = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  bool installed = false;
  cluster_.network.filter = [=](Party from, Party to, const Bytes& message) {
    return from != kClient || to == ahead || !is_question(message) ||
           static_cast<MessageType>(message[2]) != MessageType::commit;
  };
  cluster_.on_step = [&](Party party, std::string_view name, bool done) {
    installed = installed || (party == ahead && name == "flip" && done);
  };
  for (BlockId block = 0; block < 6; ++block)
    cluster_.engine().write(block, pattern(block, newest_[block], test::kBlockSize),
                            [](const Status&) {});
  ASSERT_NO_FATAL_FAILURE(await([&] { return installed; }));
  cluster_.kill_client();
  bool opened = false;
  cluster_.network.filter = [=](Party from, Party to, const Bytes& message) {
    return from != kClient || to == ahead || !is_question(message) ||
           static_cast<MessageType>(message[2]) != MessageType::open;
  };
  cluster_.on_step = [&](Party party, std::string_view name, bool done) {
    opened = opened || (party == ahead && name == "session" && done);
  };
  cluster_.begin_open_client([](const Status&) {});
  ASSERT_NO_FATAL_FAILURE(await([&] { return opened; }));
  cluster_.on_step = {};
  cluster_.kill_client();
  cluster_.settle();
  go_away(ahead, Absence::cut_off);
  cluster_.lose_client();
  ASSERT_OK(cluster_.rebuild_client());
  come_back(ahead);
  ASSERT_OK(cluster_.open_client());
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  ASSERT_NO_FATAL_FAILURE(check_contents());
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  ASSERT_OK(cluster_.close_client());
  go_on();
}

// One server is away, and another one was set back. What fewer than t + 1 servers have counts no
// more than what a server that lies may show.
TEST_P(AwayTest, ARestoreIsNotMadeFromAnOldCopy) {
  constexpr Party kOld = 1, kAway = 2;
  ASSERT_NO_FATAL_FAILURE(fill());
  cluster_.settle();
  cluster_.stop_server(kOld);
  const auto old = cluster_.disk(kOld).image();
  cluster_.start_server(kOld);
  work();
  cluster_.kill_client();
  cluster_.stop_server(kOld);
  cluster_.replace_disk(kOld, old);
  cluster_.start_server(kOld);
  go_away(kAway, Absence::killed);
  cluster_.lose_client();
  const bool others_suffice = cluster_.servers() - 2u > cluster_.params().scheme.threshold;
  auto rebuilt = cluster_.rebuild_client();
  EXPECT_EQ(rebuilt.has_value(), others_suffice);
  if (!others_suffice) {
    ASSERT_FALSE(rebuilt);
    EXPECT_EQ(rebuilt.error().code, Errc::unreachable);
    const std::string& message = rebuilt.error().message;
    EXPECT_NE(message.find("server 1 has seen"), std::string::npos) << message;
    EXPECT_NE(message.find("Start server 2, and restore again"), std::string::npos) << message;
    come_back(kAway);
    rebuilt = cluster_.rebuild_client();
  }
  ASSERT_OK(rebuilt);
  come_back(kAway);
  go_on();
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  expect_equal_replicas();
}

// The same, but the server says so although it is as new as the others; or it claims more.
TEST_P(AwayOfThree, ALiarIsNotBelievedInARestoreWithoutOne) {
  constexpr Party kLiar = 1, kAway = 2;
  ASSERT_NO_FATAL_FAILURE(fill());
  work();
  settle_evictions();
  cluster_.kill_client();
  go_away(kAway, Absence::killed);
  cluster_.lose_client();
  for (const int more : {-3, 1, 3}) {
    SCOPED_TRACE(more);
    cluster_.network.filter = [=, this](Party from, Party to, const Bytes& message) {
      if (from != kLiar || to != kClient || !is_answer(message) || message[4] != 0 ||
          static_cast<MessageType>(message[2]) != MessageType::survey)
        return true;
      auto answer = decode<SurveyAnswer>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      if (!answer) return true;
      answer->tree_version += static_cast<std::uint64_t>(more);
      Bytes changed = encode(*answer);
      std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
      cluster_.network.deliver(from, to, changed);
      return false;
    };
    const auto rebuilt = cluster_.rebuild_client();
    ASSERT_FALSE(rebuilt);
    EXPECT_EQ(rebuilt.error().code, Errc::unreachable) << rebuilt.error().message;
  }
  cluster_.network.filter = {};
  ASSERT_OK(cluster_.rebuild_client());
  come_back(kAway);
  go_on();
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  expect_equal_replicas();
}

// A store is lost, and another server is away. The store is rebuilt if t + 1 of the others answer.
TEST_P(AwayTest, AStoreIsRebuiltWithoutOneOfTheOthers) {
  constexpr Party kLost = 1, kAway = 2;
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_OK(cluster_.commit());
  cluster_.kill_client();
  cluster_.stop_server(last);
  const auto old = cluster_.disk(last).image();
  cluster_.start_server(last);
  ASSERT_OK(cluster_.open_client());
  work();
  ASSERT_OK(cluster_.close_client());
  cluster_.stop_server(last);
  const auto newest = cluster_.disk(last).image();
  cluster_.start_server(last);
  go_away(kLost, Absence::wiped);
  come_back(kLost);
  go_away(kAway, Absence::killed);
  if (last - 2u <= cluster_.params().scheme.threshold) {
    const Status few = cluster_.reenrol({kLost});
    ASSERT_FALSE(few);
    EXPECT_EQ(few.error().code, Errc::unreachable);
    EXPECT_NE(few.error().message.find("no answer from server 2: "), std::string::npos)
        << few.error().message;
    come_back(kAway);
  }
  cluster_.stop_server(last);
  cluster_.replace_disk(last, old);
  cluster_.start_server(last);
  const Status of_old = cluster_.reenrol({kLost});
  ASSERT_FALSE(of_old);
  EXPECT_NE(of_old.error().message.find(fmt::format("server {}", last)), std::string::npos)
      << of_old.error().message;
  cluster_.stop_server(last);
  cluster_.replace_disk(last, newest);
  cluster_.start_server(last);
  ASSERT_OK(cluster_.reenrol({kLost}));
  ASSERT_OK(cluster_.open_client());
  const auto healed = cluster_.run(cluster_.engine().scrub({kLost}));
  ASSERT_OK(healed);
  EXPECT_EQ(healed->lost, 0u);
  ASSERT_NO_FATAL_FAILURE(check_contents());
  come_back(kAway);
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  ASSERT_OK(cluster_.close_client());
  go_on();
}

TEST_P(AwayTest, ARestoreNeedsAsManyAsAMount) {
  ASSERT_NO_FATAL_FAILURE(fill());
  cluster_.kill_client();
  cluster_.lose_client();
  for (const Party server : {1, 2}) go_away(server, Absence::wiped);
  come_back(2);
  const auto rebuilt = cluster_.rebuild_client();
  ASSERT_FALSE(rebuilt);
  EXPECT_EQ(rebuilt.error().code, Errc::unreachable);
  const std::string& message = rebuilt.error().message;
  EXPECT_NE(message.find("server 1 does not answer; server 2 holds nothing. To restore"),
            std::string::npos)
      << message;
}

// An earlier state of the client is there. It counts if it was the last one, and is not used if a
// single server, which may be the only one in step, says that it was not.
TEST_P(AwayOfThree, AnEarlierStateCountsIfNoServerContradictsIt) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_NO_FATAL_FAILURE(begin_group());
  ASSERT_OK(cluster_.close_client());
  go_away(3, Absence::killed);
  auto rebuilt = cluster_.rebuild_client(test::Cluster::Rebuilding::beside);
  ASSERT_OK(rebuilt);
  EXPECT_TRUE(rebuilt->former_was_last);
  come_back(3);
  const auto copy = cluster_.disk(kClient).image();
  go_away(2, Absence::killed);
  ASSERT_OK(cluster_.open_client());
  ASSERT_NO_FATAL_FAILURE(write(2, ++generation_));
  ASSERT_OK(cluster_.close_client());
  come_back(2);
  go_away(3, Absence::killed);
  cluster_.replace_disk(kClient, copy);
  rebuilt = cluster_.rebuild_client(test::Cluster::Rebuilding::beside);
  ASSERT_FALSE(rebuilt);
  EXPECT_EQ(rebuilt.error().code, Errc::servers_disagree) << rebuilt.error().message;
  cluster_.lose_client();
  ASSERT_OK(cluster_.rebuild_client());
  come_back(3);
  go_on();
}

}  // namespace
}  // namespace s3oram
