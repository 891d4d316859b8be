// Mirrors in the simulator. Replicas stay equal, lies are caught before anything depends on them,
// maintenance reaches every block, and everything comes back from a single surviving server.
#include <algorithm>
#include <functional>
#include <set>

#include "oramcore/protocol/repair_messages.h"
#include "tests/sim/filled_volume.h"

namespace s3oram {
namespace {

using test::pattern;

VolumeParams mirror_of(Scheme scheme) {
  return test::mirror_volume(6, 2, min_stash_slots(6, 2), scheme);
}

class MirrorTest : public test::FilledVolume {
 protected:
  /// From now on each message of this type from the liar (or from any server) to another server is
  /// changed.
  void lie(std::optional<Party> liar, MessageType type, std::function<void(Bytes&)> change) {
    cluster_.network.filter = [this, liar, type, change](Party from, Party to,
                                                         const Bytes& message) {
      if (from == kClient || to == kClient || from != liar.value_or(from) ||
          !is_question(message) || static_cast<MessageType>(message[2]) != type)
        return true;
      Bytes changed = message;
      change(changed);
      cluster_.network.deliver(from, to, changed);
      return false;
    };
  }
  void tell_the_truth() { cluster_.network.filter = {}; }
};
INSTANTIATE_TEST_SUITE_P(Volumes, MirrorTest,
                         testing::Values(mirror_of({1, 2}), mirror_of({1, 3}), mirror_of({2, 3}),
                                         mirror_of({2, 4}), mirror_of({1, 4})),
                         [](const auto& test) {
                           return fmt::format("T{}L{}", test.param.scheme.threshold,
                                              test.param.scheme.servers);
                         });

// A vault of an older version may say that its servers are trusted less.
class DistrustfulMirror : public test::FilledVolume {};
INSTANTIATE_TEST_SUITE_P(Volume, DistrustfulMirror, testing::Values([] {
                           VolumeParams params = mirror_of({1, 2});
                           params.security = Security::malicious;
                           return params;
                         }()));

TEST_P(DistrustfulMirror, HealsWithCopies) {
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  const std::size_t stride = cluster_.params().slot_size() + BucketVersion::kTrailer;
  const auto slots = cluster_.disk(1).content(cluster_.slots().string()).size() / stride;
  for (std::size_t slot = 0; slot < slots; ++slot)
    cluster_.disk(1).rot(cluster_.slots().string(), slot * stride + 20, 1);
  for (int time = 0; time < 2; ++time) ASSERT_NO_FATAL_FAILURE(check_contents());
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
}

TEST_P(MirrorTest, ReplicasAreEqual) {
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  const auto first = buckets_of(1);
  ASSERT_GT(first.size(), kBlocks);
  for (Party server = 2; server <= cluster_.servers(); ++server)
    EXPECT_EQ(buckets_of(server), first) << "server " << +server;
  std::set<Bytes> different(first.begin(), first.end());
  EXPECT_GT(2 * different.size(), first.size()) << "only a tree that grew has two copies of slots";
  check_contents();
}

// Every server in turn changes what it passes on in evictions. None of these evictions is decided,
// and once the server tells the truth, everything is there.
TEST_P(MirrorTest, ALieInAnEvictionIsCaughtBeforeItIsDecided) {
  ASSERT_NO_FATAL_FAILURE(fill());
  std::size_t all_lies = 0;
  for (Party liar = 1; liar <= cluster_.servers(); ++liar) {
    settle_evictions();
    const auto before = cluster_.engine().status().evictions;
    std::size_t lies = 0, refused = 0;
    cluster_.network.observer = [&](Party from, Party, const Bytes& message) {
      refused += from == kClient && is_question(message) &&
                 static_cast<MessageType>(message[2]) == MessageType::discard;
    };
    lie(liar, MessageType::subshare, [&](Bytes& message) {
      message[message.size() / 2] ^= 0x40;
      ++lies;
    });
    for (BlockId block = 0; block < 3; ++block)
      cluster_.engine().write(block, pattern(block, 20u + liar, test::kBlockSize), [](Status) {});
    // A server that does not work in this eviction passes nothing on.
    cluster_.run_until(
        [&] { return refused > 0 || cluster_.engine().status().evictions > before; });
    if (lies > 0) {
      EXPECT_GT(refused, 0U) << "server " << +liar;
      EXPECT_EQ(cluster_.engine().status().evictions, before) << "server " << +liar;
    }
    all_lies += lies;
    tell_the_truth();
    settle_evictions();
    EXPECT_GT(cluster_.engine().status().evictions, before);
    for (BlockId block = 0; block < 3; ++block) newest_[block] = 20u + liar;
    cluster_.network.observer = {};
  }
  EXPECT_GT(all_lies, 0U);
  ASSERT_NO_FATAL_FAILURE(check_contents());
  ASSERT_OK(cluster_.close_client());
  go_on();
}

// If an honest server can work in the liar's place, evictions continue. Otherwise they stop and
// report why, and reads continue.
TEST_P(MirrorTest, AWorkerThatAlwaysLiesStopsEvictionsOrIsPassedBy) {
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  const auto before = cluster_.engine().status().evictions;
  const bool always_works = cluster_.params().workers() == cluster_.servers();
  std::set<Bytes> attempts;
  cluster_.network.observer = [&](Party from, Party to, const Bytes& message) {
    if (from != kClient || to != 1 || !is_question(message)) return;
    const auto prepare = decode<PrepareRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
    if (static_cast<MessageType>(message[2]) == MessageType::prepare && prepare)
      attempts.insert(Bytes(prepare->id.attempt.begin(), prepare->id.attempt.end()));
  };
  lie(1, MessageType::subshare, [](Bytes& message) { message[message.size() / 2] ^= 0x40; });
  Status written;
  for (std::uint64_t i = 0; written && i < 40; ++i) {
    written = cluster_.write(0, pattern(0, 30 + i, test::kBlockSize));
    if (written) newest_[0] = 30 + i;
    cluster_.settle();
  }
  const auto status = cluster_.engine().status();
  EXPECT_EQ(status.failure, "");
  if (always_works) {
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, Errc::servers_disagree) << written.error().message;
    ASSERT_TRUE(status.evictions_stopped);
    EXPECT_EQ(status.evictions_stopped->code, Errc::servers_disagree);
    EXPECT_EQ(attempts.size(), 3u);
  } else {
    ASSERT_OK(written);
    EXPECT_FALSE(status.evictions_stopped);
    EXPECT_GT(status.evictions, before);
  }
  ASSERT_NO_FATAL_FAILURE(check_contents());
  cluster_.network.observer = {};
  tell_the_truth();
  cluster_.kill_client();
  go_on();
}

// One server's answers in the check are wrong, whether or not it works. If the others are enough,
// evictions continue without it.
TEST_P(MirrorTest, OneServerThatLiesInTheCheckDoesNotStopEvictions) {
  const unsigned threshold = cluster_.params().scheme.threshold;
  if (cluster_.params().workers() == cluster_.servers()) return;
  ASSERT_NO_FATAL_FAILURE(fill());
  struct Tale {
    const char* name;
    bool is_found;  // not only passed by, or left out without a proof
    std::function<void(CertifyAnswer&)> tell;
  };
  const Tale tales[] = {{"sum", threshold == 1, [](CertifyAnswer& answer) { answer.sum[3] ^= 1; }},
                        {"digest", true, [](CertifyAnswer& answer) { answer.list_digest[3] ^= 1; }},
                        {"list", true,
                         [](CertifyAnswer& answer) {
                           if (!answer.list.empty()) answer.list[3] ^= 1;
                         }},
                        {"no list", true, [](CertifyAnswer& answer) { answer.list.clear(); }}};
  for (const Tale& tale : tales) {
    SCOPED_TRACE(tale.name);
    const auto liar = static_cast<Party>(1 + (&tale - tales) % cluster_.servers());
    settle_evictions();
    const auto before = cluster_.engine().status().evictions;
    bool found = false, honest_found = false, left = false;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from != liar || to != kClient || !is_answer(message) || message[4] != 0 ||
          static_cast<MessageType>(message[2]) != MessageType::certify)
        return true;
      auto answer = decode<CertifyAnswer>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      if (!answer) return true;
      tale.tell(*answer);
      Bytes changed = encode(*answer);
      std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
      cluster_.network.deliver(from, to, changed);
      return false;
    };
    for (std::uint64_t i = 0; i < 14; ++i) {
      ASSERT_NO_FATAL_FAILURE(write(i % 4, 100 + i));
      const auto servers = cluster_.engine().status().servers;
      for (Party server = 1; server <= servers.size(); ++server) {
        const auto& trouble = servers[server - 1u].trouble;
        const bool named = trouble && trouble->error.message.starts_with(
                                          fmt::format("server {} is faulty or lies", server));
        (server == liar ? found : honest_found) |= named;
        if (server == liar) left |= servers[server - 1u].standing != Standing::in_step;
      }
    }
    const auto status = cluster_.engine().status();
    EXPECT_FALSE(status.evictions_stopped);
    EXPECT_GT(status.evictions, before + 3);
    EXPECT_TRUE(left);
    EXPECT_EQ(found, tale.is_found);
    EXPECT_FALSE(honest_found);
    tell_the_truth();
    cluster_.run_until([&] {
      return std::ranges::all_of(cluster_.engine().status().servers, [](const auto& server) {
        return server.standing == Standing::in_step;
      });
    });
    cluster_.pass(2 * Troubles::kForgotten);
  }
  ASSERT_NO_FATAL_FAILURE(check_contents());
  settle_evictions();
  const auto first = buckets_of(1);
  for (Party server = 2; server <= cluster_.servers(); ++server)
    EXPECT_EQ(buckets_of(server), first) << "server " << +server;
}

// One server's copies of some slots are wrong under right checksums. They are found when the check
// of an eviction fails, and replaced.
TEST_P(MirrorTest, AWrongCopyIsReplacedAndEvictionsGoOn) {
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  ASSERT_OK(cluster_.close_client());
  unsigned at = 0;
  change_slots(2, [&](Bytes& slot) {
    if (++at % 5 == 0) slot[at % 2 ? 200 : slot.size() - 40] ^= 1;
  });
  ASSERT_OK(cluster_.open_client());
  const std::uint64_t before = cluster_.engine().status().evictions;
  for (std::uint64_t i = 0; cluster_.engine().status().evictions < before + 9; ++i) {
    ASSERT_LT(i, 200u);
    ASSERT_NO_FATAL_FAILURE(write(kBlocks + i % 2, i));
    cluster_.settle();
  }
  EXPECT_FALSE(cluster_.engine().status().evictions_stopped);
  ASSERT_NO_FATAL_FAILURE(check_contents());
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
}

// One server shows, in each slot, a row that it holds elsewhere. The row opens, but does not belong
// there; the other server's does.
TEST_P(MirrorTest, AnotherBlockInASlotIsNotSettledOn) {
  if (cluster_.servers() > 2) return;  // more servers outvote it
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  for (const Party liar : {Party{1}, Party{2}}) {
    ASSERT_OK(cluster_.close_client());
    Bytes before;
    change_slots(liar, [&](Bytes& slot) {
      if (before.empty()) before = slot;
      std::swap(before, slot);
    });
    ASSERT_OK(cluster_.open_client());
    const auto healed = cluster_.run(cluster_.engine().scrub({}));
    ASSERT_OK(healed);
    EXPECT_GT(healed->shares.at(liar), 0u);
    EXPECT_EQ(healed->lost, 0u);
    ASSERT_NO_FATAL_FAILURE(check_contents());
  }
}

// The request comes again just when the eviction is being committed and the tree grows. The server
// answers as before, or refuses.
TEST_P(MirrorTest, ALateQuestionAboutAnEvictionIsOfThatOne) {
  std::map<Party, Bytes> question;
  std::map<std::pair<Party, std::uint64_t>, Bytes> answers;
  std::map<std::uint64_t, std::uint64_t> repeats;  // by number: the request that it repeats
  std::uint64_t next = 0x3000000, late = 0;
  const auto number_of = [](const Bytes& message) {
    std::uint64_t number = 0;
    std::memcpy(&number, message.data() + 8, sizeof number);
    return number;
  };
  cluster_.network.observer = [&](Party from, Party to, const Bytes& message) {
    const auto type = static_cast<MessageType>(message[2]);
    const auto ask_again = [&](Party server) {
      Bytes again = question[server];
      const std::uint64_t number = next++;
      repeats[number] = number_of(again);
      std::memcpy(again.data() + 8, &number, sizeof number);
      cluster_.inject(kClient, server, again);
    };
    if (from == kClient && type == MessageType::certify) question[to] = message;
    if (from == kClient && type == MessageType::commit && question.contains(to)) ask_again(to);
    if (to != kClient || !is_answer(message) || type != MessageType::certify) return;
    const Bytes body(message.begin() + Rpc::kHeaderSize, message.end());
    const auto repeated = repeats.find(number_of(message));
    if (repeated == repeats.end()) {
      answers[{from, number_of(message)}] = body;
      ask_again(from);
    } else if (message[4] == 0) {
      ++late;
      EXPECT_EQ(body, (answers[{from, repeated->second}]));
    }
  };
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  cluster_.network.observer = {};
  EXPECT_GT(cluster_.engine().status().height, 2u);
  EXPECT_GT(repeats.size(), 10u);
  EXPECT_GT(late, 0u);
}

// A server that does not work in a retrieval cannot spoil it.
TEST_P(MirrorTest, NoSummandOfAServerThatDoesNotWorkIsTaken) {
  if (cluster_.params().workers() == cluster_.servers()) return;
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  std::set<std::uint64_t> ids;
  cluster_.network.observer = [&](Party from, Party to, const Bytes& message) {
    if (from != kClient || !is_question(message) ||
        static_cast<MessageType>(message[2]) != MessageType::retrieve)
      return;
    const auto request = decode<SharedRetrieveRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
    ASSERT_TRUE(request && request->sum);
    ids.insert(request->sum->request_id);
    if (request->sum->aggregator != to) return;
    const Bytes junk(cluster_.params().slot_size(), 0x5a);
    for (Party other = 1; other <= cluster_.servers(); ++other) {
      if (std::ranges::count(request->workers, other) > 0) continue;
      Bytes summand = encode(MaskedShareRequest{request->epoch, request->sum->request_id, junk});
      summand[0] = static_cast<std::uint8_t>(MessageKind::question);
      summand[1] = Rpc::kWireVersion;
      summand[2] = static_cast<std::uint8_t>(MessageType::masked_share);
      summand[15] = other;
      std::memcpy(summand.data() + 8, &request->sum->request_id, 7);
      cluster_.inject(other, to, summand);
    }
  };
  const auto before = cluster_.engine().status().accesses;
  ASSERT_NO_FATAL_FAILURE(check_contents());
  cluster_.network.observer = {};
  EXPECT_EQ(ids.size(), cluster_.engine().status().accesses - before)
      << "a retrieval was asked for again";
}

// The helper lies when it gives a third server its lost copies, which are compared before they
// count.
TEST_P(MirrorTest, ACopyIsComparedWithMoreThanItsSource) {
  if (cluster_.servers() < 3) return;
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  ASSERT_OK(cluster_.close_client());
  const Party lost = cluster_.servers();
  cluster_.stop_server(lost);
  cluster_.lose(lost);
  cluster_.start_server(lost);
  ASSERT_OK(cluster_.reenrol({lost}));
  ASSERT_OK(cluster_.open_client());
  lie(1, MessageType::masked_share, [](Bytes& message) { message[message.size() - 30] ^= 1; });
  const auto healed = cluster_.run(cluster_.engine().scrub({lost}));
  tell_the_truth();
  ASSERT_OK(healed);
  EXPECT_EQ(healed->lost, 0u);
  settle_evictions();
  const auto first = buckets_of(1);
  EXPECT_EQ(buckets_of(lost), first);
  ASSERT_OK(cluster_.close_client());
  go_on();
}

// A server that changes its answers spoils a retrieval of a block and a dummy retrieval alike, and
// the client does the same after both.
TEST_P(MirrorTest, ASpoiltAnswerShowsNothingOfWhatWasAskedFor) {
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  const auto messages_of_a_read = [&](BlockId block) {
    settle_evictions();
    while (cluster_.engine().status().accesses % 2 != 0) static_cast<void>(cluster_.read(3));
    settle_evictions();
    std::vector<std::pair<unsigned, std::size_t>> sent;  // type and size
    cluster_.network.observer = [&](Party from, Party, const Bytes& message) {
      if (from == kClient && is_question(message)) sent.emplace_back(message[2], message.size());
    };
    lie({}, MessageType::masked_share, [](Bytes& message) { message[message.size() - 30] ^= 1; });
    EXPECT_TRUE(cluster_.read(block)) << "the raw slots of the path are right";
    tell_the_truth();
    settle_evictions();
    cluster_.network.observer = {};
    std::ranges::sort(sent);
    return sent;
  };
  // The same change in two summands cancels out.
  if (cluster_.params().scheme.threshold % 2 == 0) GTEST_SKIP();
  const auto of_a_block = messages_of_a_read(4);
  const auto of_nothing = messages_of_a_read(kBlocks + 7);
  EXPECT_EQ(of_a_block, of_nothing);
}

VolumeParams with_large_blocks() {
  VolumeParams params = mirror_of({3, 4});
  params.block_size = 1 << 16;
  return params;
}
class LargeBlocks : public test::FilledVolume {};
INSTANTIATE_TEST_SUITE_P(Volumes, LargeBlocks, testing::Values(with_large_blocks()));

// The workers take turns in adding up tiles, so no line carries more than the others.
TEST_P(LargeBlocks, EveryWorkerSendsAsMuchInAnEviction) {
  const VolumeParams& params = cluster_.params();
  ASSERT_OK(cluster_.open_client());
  const auto evict = [&] {
    for (BlockId block = 0; block < params.evict_every; ++block)
      ASSERT_OK(cluster_.write(block, pattern(block, 1, params.block_size)));
    settle_evictions();
  };
  ASSERT_NO_FATAL_FAILURE(evict());
  std::vector<std::size_t> sent(cluster_.servers() + 1);
  cluster_.network.observer = [&](Party from, Party to, const Bytes& message) {
    if (from != kClient && to != kClient && is_question(message) &&
        static_cast<MessageType>(message[2]) == MessageType::subshare)
      sent[from] += message.size();
  };
  const auto before = cluster_.engine().status().evictions;
  ASSERT_NO_FATAL_FAILURE(evict());
  ASSERT_EQ(cluster_.engine().status().evictions, before + 1);
  std::ranges::sort(sent, std::greater{});
  EXPECT_LT(sent[0], sent[params.workers() - 1] * 3 / 2);
}

TEST_P(MirrorTest, MaintenanceGoesRound) {
  ASSERT_NO_FATAL_FAILURE(fill());
  const unsigned every = VolumeParams::kMaintainEvery;
  const auto newest_access = [&] { return cluster_.engine().status().accesses; };
  const std::uint64_t before = newest_access();
  std::uint64_t generation = 10;
  // Only one block is written, for as long as it takes to maintain all blocks.
  while (newest_access() - before < (kBlocks + 2) * every) write(0, ++generation);
  settle_evictions();
  ASSERT_OK(cluster_.commit());
  ASSERT_OK(cluster_.close_client());
  auto state = ClientState::open(cluster_.database(), cluster_.disk(kClient));
  ASSERT_OK(state);
  const auto loaded = state->load(cluster_.params());
  ASSERT_OK(loaded);
  for (BlockId block = 0; block < kBlocks; ++block)
    EXPECT_GT(loaded->positions.get(block).version, first_access(1) + before) << block;
  EXPECT_GT(loaded->maintained, 0u) << "the cursor is kept";
  // Nothing but the cursor chooses the blocks. A choice by layers or buckets would come round as
  // well, and show which parts of the tree are hot.
  std::uint64_t previous = 0;
  for (BlockId i = 0; i < kBlocks; ++i) {
    const BlockId block = (loaded->maintained + i) % kBlocks;
    if (block == 0) continue;  // the test writes it, too
    const std::uint64_t version = loaded->positions.get(block).version;
    EXPECT_GT(version, previous) << block;
    previous = version;
  }
  ASSERT_OK(cluster_.open_client());
  check_contents();
}

// All stores but one are lost, and rebuilt from the one that is left.
TEST_P(MirrorTest, OneThatIsLeftGivesAllBack) {
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  ASSERT_OK(cluster_.close_client());
  std::set<Party> lost;
  for (Party server = 1; server < cluster_.servers(); ++server) {
    cluster_.stop_server(server);
    cluster_.lose(server);
    cluster_.start_server(server);
    lost.insert(server);
  }
  ASSERT_OK(cluster_.reenrol(lost));
  ASSERT_OK(cluster_.open_client());
  const auto healed = cluster_.run(cluster_.engine().scrub(lost));
  ASSERT_OK(healed);
  EXPECT_EQ(healed->lost, 0u);
  settle_evictions();
  const auto first = buckets_of(1);
  for (Party server = 2; server <= cluster_.servers(); ++server)
    EXPECT_EQ(buckets_of(server), first) << "server " << +server;
  ASSERT_OK(cluster_.close_client());
  go_on();
}

// The client's database is lost, and rebuilt from the labels under the layers.
TEST_P(MirrorTest, LabelsAreReadUnderTheirLayers) {
  ASSERT_NO_FATAL_FAILURE(fill());
  settle_evictions();
  ASSERT_OK(cluster_.close_client());
  cluster_.lose_client();
  const auto rebuilt = cluster_.rebuild_client();
  ASSERT_OK(rebuilt);
  EXPECT_EQ(rebuilt->damaged, 0u);
  EXPECT_EQ(rebuilt->state.positions.mapped(), kBlocks);
  go_on();
}

}  // namespace
}  // namespace s3oram
