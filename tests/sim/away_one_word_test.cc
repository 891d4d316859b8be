// Mirrors in which a server is away or comes back: what one server says decides nothing.
#include <map>

#include "oramcore/protocol/repair_messages.h"
#include "tests/sim/mirror_without_one.h"

namespace s3oram {
namespace {

using test::Absence;
using test::AwayOfThree;
using test::AwayTest;
using test::kMostPause;

// A server that was rolled back cannot give what a server in step must have.
TEST_P(AwayTest, AnOldStateInStepIsRefused) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_OK(cluster_.close_client());
  cluster_.stop_server(1);
  const auto old = cluster_.disk(1).image();
  cluster_.start_server(1);
  ASSERT_OK(cluster_.open_client());
  work();
  ASSERT_OK(cluster_.close_client());
  cluster_.stop_server(1);
  cluster_.replace_disk(1, old);
  cluster_.start_server(1);
  const Status opened = cluster_.open_client();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::wrong_volume) << opened.error().message;
}

// The same, but its sessions do not show it, because the old state is of the last one.
TEST_P(AwayOfThree, AnOldStateOfTheLastSessionIsRefused) {
  ASSERT_NO_FATAL_FAILURE(fill());
  const auto old = cluster_.disk(1).image();
  work();
  ASSERT_OK(cluster_.commit());
  settle_evictions();
  cluster_.kill_client();
  cluster_.stop_server(1);
  cluster_.replace_disk(1, old);
  cluster_.start_server(1);
  const Status opened = cluster_.open_client();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::wrong_volume) << opened.error().message;
}

// The server that gives a returning one its copies changes them, and then shows no digests to
// compare.
TEST_P(AwayTest, ACopyDoesNotCountOnTheWordOfItsSource) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  go_away(last, Absence::wiped);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
  work();
  settle_evictions();
  unsigned lies = 0, silences = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from != 1) return true;
    const auto type = static_cast<MessageType>(message[2]);
    Bytes changed = message;
    if (to == last && is_question(message) && type == MessageType::masked_share) {
      changed[changed.size() - 30] ^= 1;
      ++lies;
    } else if (to == kClient && is_answer(message) && type == MessageType::digests) {
      auto shown = decode<DigestsAnswer>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      if (!shown) return true;
      for (SlotDigest& each : shown->slots) each.digest.clear();
      changed = encode(*shown);
      std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
      ++silences;
    } else {
      return true;
    }
    cluster_.network.deliver(from, to, changed);
    return false;
  };
  if (!cluster_.runs(last)) cluster_.start_server(last);
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  cluster_.network.filter = {};
  EXPECT_GT(lies, 0u);
  EXPECT_GT(silences, 0u);
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  check_contents();
}

// A server that is not needed refuses requests, with each kind of error.
TEST_P(AwayOfThree, NoErrorOfOneServerEndsTheVolume) {
  ASSERT_NO_FATAL_FAILURE(fill());
  constexpr MessageType kTypes[] = {MessageType::write_root, MessageType::prepare,
                                    MessageType::commit, MessageType::retrieve,
                                    MessageType::certify};
  constexpr Errc kErrors[] = {Errc::failed,        Errc::stale_vault, Errc::unreachable,
                              Errc::unsupported,   Errc::fenced,      Errc::bad_request,
                              Errc::shutting_down, Errc::corrupt};
  for (const MessageType refused : kTypes)
    for (const Errc code : kErrors) {
      // A server may report damage as often as a retrieval finds it.
      if (code == Errc::corrupt && refused == MessageType::retrieve) continue;
      SCOPED_TRACE(
          fmt::format("type {}, error {}", static_cast<int>(refused), static_cast<int>(code)));
      cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
        if (from != 3 || to != kClient || !is_answer(message) || message[4] != 0 ||
            static_cast<MessageType>(message[2]) != refused)
          return true;
        Bytes refusal(message.begin(), message.begin() + Rpc::kHeaderSize);
        refusal[4] = static_cast<std::uint8_t>(code);
        cluster_.network.deliver(from, to, refusal);
        return false;
      };
      const Duration begun = cluster_.clock.now();
      work();
      EXPECT_LT(cluster_.clock.now() - begun, std::chrono::seconds(30));
      cluster_.network.filter = {};
      ASSERT_EQ(cluster_.engine().status().failure, "");
      ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
    }
  EXPECT_FALSE(cluster_.engine().status().evictions_stopped);
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
}

// The old copy knows of no newer session. Nor does the server that was left out, so it would accept
// a session of the copy.
TEST_P(AwayOfThree, AnOldCopyOfTheVaultLeavesNoTraceAtAServerThatWasLeftOut) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_OK(cluster_.close_client());
  const auto old = cluster_.disk(kClient).image();
  go_away(3, Absence::killed);
  ASSERT_OK(cluster_.open_client());
  work();
  ASSERT_OK(cluster_.close_client());
  come_back(3);
  const auto newest = cluster_.disk(kClient).image();
  cluster_.replace_disk(kClient, old);
  const Status opened = cluster_.open_client();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::stale_vault) << opened.error().message;
  cluster_.kill_client();
  cluster_.replace_disk(kClient, newest);
  ASSERT_OK(cluster_.open_client());
  check_contents();
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
}

// The copy was made in the same session, when a server other than the current one was left out. So
// the server that is now left out knows of the newer write, too.
TEST_P(AwayOfThree, AnOldCopyOfTheVaultIsRefusedOnTheWordOfAServerThatItLeftOut) {
  ASSERT_NO_FATAL_FAILURE(fill());
  const auto evictions = [&] { return cluster_.engine().status().evictions; };
  ASSERT_NO_FATAL_FAILURE(begin_group());
  go_away(3, Absence::killed);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(3) == Standing::away; }));
  ASSERT_OK(cluster_.commit());
  const auto old = cluster_.disk(kClient).image();
  const auto evictions_before = evictions();
  come_back(3);
  ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  go_away(2, Absence::killed);
  ASSERT_NO_FATAL_FAILURE(await([&] { return standing(2) == Standing::away; }));
  ASSERT_NO_FATAL_FAILURE(write(2, ++generation_));
  ASSERT_OK(cluster_.commit());
  ASSERT_EQ(evictions(), evictions_before);
  cluster_.kill_client();
  const auto newest = cluster_.disk(kClient).image();
  come_back(2);
  cluster_.replace_disk(kClient, old);
  const Status opened = cluster_.open_client();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::stale_vault) << opened.error().message;
  cluster_.kill_client();
  cluster_.replace_disk(kClient, newest);
  ASSERT_OK(cluster_.open_client());
  check_contents();
}

// A server that is not needed answers everything except the requests on which an eviction, or its
// own return, depends.
TEST_P(AwayOfThree, NoAnswerOfAServerThatComesBackIsWaitedForLong) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  for (const MessageType silent :
       {MessageType::certify, MessageType::prepare, MessageType::rejoin}) {
    SCOPED_TRACE(fmt::format("type {}", static_cast<int>(silent)));
    go_away(last, Absence::killed);
    ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
    work();
    unsigned lost = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      const auto type = static_cast<MessageType>(message[2]);
      const bool copies =
          to == last && standing(last) == Standing::following &&
          type == (from == kClient ? MessageType::heal_slot : MessageType::masked_share);
      if (copies && silent != MessageType::rejoin && lost == 0) return false;  // keeps it following
      if (from != last || to != kClient || !is_answer(message) || type != silent) return true;
      if (standing(last) == Standing::in_step) return true;  // now it is needed
      ++lost;
      return false;
    };
    if (!cluster_.runs(last)) cluster_.start_server(last);
    const auto evictions = cluster_.engine().status().evictions;
    // A server that went away repeatedly is brought back after a while.
    const Duration until = cluster_.clock.now() + test::kLong;
    while (lost == 0 && cluster_.clock.now() < until)
      EXPECT_LT(longest_of_writes(std::chrono::seconds(1)), kMostPause);
    EXPECT_LT(longest_of_writes(std::chrono::seconds(14)), kMostPause);
    EXPECT_GT(lost, 0u);
    EXPECT_GT(cluster_.engine().status().evictions, evictions);
    cluster_.network.filter = {};
    ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
  }
  ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
}

// One of the two servers that describe the tree to a returning one shows wrong stamps, or does not
// name all buckets. Buckets on which the two do not agree are copied and compared.
TEST_P(AwayOfThree, NoServerKeepsAnotherOneOutByWhatItSaysOfTheTree) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  const std::function<void(std::vector<BucketShape>&)> tales[] = {
      [](std::vector<BucketShape>& buckets) {
        for (BucketShape& each : buckets)
          if (each.stamp) ++*each.stamp;
      },
      [](std::vector<BucketShape>& buckets) {
        std::erase_if(buckets, [](const BucketShape& each) { return each.bucket % 2 == 0; });
      }};
  for (const auto& tale : tales) {
    go_away(last, Absence::killed);
    ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
    work();
    unsigned lies = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from != 1 || to != kClient || !is_answer(message) || message[4] != 0 ||
          static_cast<MessageType>(message[2]) != MessageType::layout)
        return true;
      auto answer = decode<LayoutAnswer>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      if (!answer) return true;
      tale(answer->buckets);
      Bytes changed = encode(*answer);
      std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
      ++lies;
      cluster_.network.deliver(from, to, changed);
      return false;
    };
    if (!cluster_.runs(last)) cluster_.start_server(last);
    ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
    cluster_.network.filter = {};
    EXPECT_GT(lies, 0u);
    ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  }
  check_contents();
}

// One of the two servers that describe the tree names the stamps that the returning one has, as if
// nothing had been written since it went away.
TEST_P(AwayOfThree, NoServerHidesWhatAnotherOneLacks) {
  const Party last = cluster_.servers();
  ASSERT_NO_FATAL_FAILURE(fill());
  for (const Party liar : Bytes{1, 2}) {
    SCOPED_TRACE(fmt::format("server {}", liar));
    go_away(last, Absence::killed);
    ASSERT_NO_FATAL_FAILURE(await([&] { return standing(last) == Standing::away; }));
    std::map<BucketIndex, Stamp> old;
    {
      const auto control = Control::open("control.db", cluster_.disk(last));
      ASSERT_OK(control);
      for (const auto& [bucket, ref] : control->layout()) old[bucket] = ref.stamp;
    }
    work();
    unsigned lies = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from != liar || to != kClient || !is_answer(message) || message[4] != 0 ||
          static_cast<MessageType>(message[2]) != MessageType::layout)
        return true;
      auto answer = decode<LayoutAnswer>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      if (!answer) return true;
      for (BucketShape& each : answer->buckets)
        if (const auto found = old.find(each.bucket); found != old.end())
          each.stamp = found->second;
      Bytes changed = encode(*answer);
      std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
      ++lies;
      cluster_.network.deliver(from, to, changed);
      return false;
    };
    cluster_.start_server(last);
    ASSERT_NO_FATAL_FAILURE(await([&] { return all_in_step(); }));
    cluster_.network.filter = {};
    EXPECT_GT(lies, 0u);
    ASSERT_NO_FATAL_FAILURE(expect_equal_replicas());
  }
  check_contents();
}

}  // namespace
}  // namespace s3oram
