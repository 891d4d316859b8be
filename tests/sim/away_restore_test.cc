// Restores of a lost vault.db from a mirror in which a server is behind, or lies.
#include "oramcore/protocol/repair_messages.h"
#include "tests/sim/mirror_without_one.h"

namespace s3oram {
namespace {

using test::Absence;
using test::AwayOfThree;
using test::AwayTest;
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

// The servers that may lie show zeros wherever one other server has content.
TEST_P(AwayTest, ARestoreTakesNoZerosForWhatOneServerHolds) {
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
  come_back(last);
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
  go_on();
}

}  // namespace
}  // namespace s3oram
