// A server that lies to a read costs only time: the client asks again, then looks the answer up in
// all shares of the path. What servers see of that does not depend on what is read.
#include "oramcore/protocol/repair_messages.h"
#include "tests/sim/filled_volume.h"

namespace s3oram {
namespace {

using test::pattern;

constexpr BlockId kNothing = 4000;  // a block that was never written

class LyingRetrieval : public test::FilledVolume {
 protected:
  using Question = std::tuple<Party, MessageType, std::size_t>;

  void SetUp() override {
    FilledVolume::SetUp();
    ASSERT_NO_FATAL_FAILURE(fill());
    cluster_.settle();
  }

  static MessageType type_of(const Bytes& message) { return static_cast<MessageType>(message[2]); }
  /// Returns the client's requests while `block` is read, with their sizes.
  std::vector<Question> questions_of(BlockId block, Result<Bytes>& content) {
    std::vector<Question> asked;
    cluster_.network.observer = [&](Party from, Party to, const Bytes& message) {
      if (from == kClient && is_question(message) && type_of(message) != MessageType::traffic)
        asked.emplace_back(to, type_of(message), message.size());
    };
    content = cluster_.read(block);
    cluster_.settle();
    cluster_.network.observer = {};
    return asked;
  }
  static std::ptrdiff_t count(const std::vector<Question>& asked, MessageType type) {
    return std::ranges::count_if(asked,
                                 [&](const auto& each) { return std::get<1>(each) == type; });
  }

  /// Makes `liar` flip a bit in its part of the next `times` answers to retrievals.
  void lie(Party liar, unsigned times) {
    lies_ = 0;
    cluster_.network.filter = [this, liar, times](Party from, Party to, const Bytes& message) {
      const bool answer = is_answer(message) && to == kClient &&
                          type_of(message) == MessageType::retrieve &&
                          message.size() >= cluster_.params().slot_size();
      const bool part = is_question(message) && type_of(message) == MessageType::masked_share;
      if (from != liar || lies_ == times || !(answer || part)) return true;
      ++lies_;
      Bytes changed = message;
      changed[changed.size() - 100] ^= 4;
      cluster_.network.deliver(from, to, changed);
      return false;
    };
  }

  /// Returns the addresses of all slots in the buckets below the root.
  std::set<SlotAddress> written_slots() {
    cluster_.stop_server(1);
    const auto control = Control::open("control.db", cluster_.disk(1));
    test::Cluster::require(control);
    std::set<SlotAddress> slots;
    for (const auto& [bucket, ref] : control->layout()) {
      if (bucket == kRoot || bucket >= kStashBucket) continue;
      for (std::uint16_t slot = 0; slot < ref.slots; ++slot) slots.insert({bucket, slot});
    }
    cluster_.start_server(1);
    return slots;
  }

  unsigned lies_ = 0;
};
S3O_WITH_EACH_VOLUME(LyingRetrieval);

TEST_P(LyingRetrieval, AWrongAnswerIsAskedForAgainWhateverIsRead) {
  const auto quorum = static_cast<Party>(cluster_.params().scheme.quorum());
  for (Party liar = 1; liar <= quorum; ++liar)
    for (const unsigned times : {1u, 2u}) {
      std::vector<Question> seen;
      for (const BlockId block : {BlockId{3}, kNothing}) {
        SCOPED_TRACE(fmt::format("server {} lies {} times, block {}", liar, times, block));
        // The root's writes since the last eviction make paths longer, so there are none in either
        // case.
        while (cluster_.engine().status().accesses % cluster_.params().evict_every != 0)
          ASSERT_OK(cluster_.read(7));
        cluster_.settle();
        lie(liar, times);
        Result<Bytes> content;
        const auto asked = questions_of(block, content);
        cluster_.network.filter = {};
        EXPECT_EQ(lies_, times);
        ASSERT_OK(content);
        EXPECT_EQ(*content, block == kNothing ? Bytes(test::kBlockSize)
                                              : pattern(block, newest_[block], test::kBlockSize));
        EXPECT_EQ(count(asked, MessageType::read_slot) > 0, times == 2);
        if (block == kNothing) {
          for (const MessageType type : {MessageType::retrieve, MessageType::read_slot,
                                         MessageType::heal_slot, MessageType::write_root})
            EXPECT_EQ(count(asked, type), count(seen, type)) << static_cast<int>(type);
        }
        seen = asked;
      }
    }
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  check_contents();
}

// If there are enough servers, each answers for itself the second time, and the answers show who
// lies, so no share need be read.
class FiveServers : public LyingRetrieval {};
INSTANTIATE_TEST_SUITE_P(
    Volumes, FiveServers,
    testing::Values(test::with(test::matrix_volume(min_bucket_size(2), 2, {1, 5}),
                               Privacy::computational),
                    test::with(test::matrix_volume(min_bucket_size(2), 2, {1, 5}),
                               Privacy::information_theoretic)),
    test::volume_name);

// This also holds for servers that do not multiply in evictions.
TEST_P(FiveServers, HaveSharesThatFitTogether) {
  const auto healed = cluster_.run(cluster_.engine().scrub({}));
  ASSERT_OK(healed);
  EXPECT_EQ(healed->total() + healed->lost, 0u);
}

TEST_P(FiveServers, TheOneThatAnswersWronglyIsNamedWhateverIsRead) {
  const auto quorum = static_cast<Party>(cluster_.params().scheme.quorum());
  for (Party liar = 1; liar <= quorum; ++liar)
    for (const BlockId block : {BlockId{3}, kNothing}) {
      SCOPED_TRACE(fmt::format("server {} lies, block {}", liar, block));
      lie(liar, 2);
      Result<Bytes> content;
      const Duration begun = cluster_.clock_of(kClient).now();
      const auto asked = questions_of(block, content);
      cluster_.network.filter = {};
      EXPECT_EQ(lies_, 2u);
      ASSERT_OK(content);
      EXPECT_EQ(*content, block == kNothing ? Bytes(test::kBlockSize)
                                            : pattern(block, newest_[block], test::kBlockSize));
      EXPECT_EQ(count(asked, MessageType::retrieve), quorum + cluster_.servers());
      EXPECT_EQ(count(asked, MessageType::read_slot), 0);
      const auto servers = cluster_.engine().status().servers;
      for (Party server = 1; server <= cluster_.servers(); ++server) {
        const auto& trouble = servers[server - 1u].trouble;
        const bool named =
            trouble && trouble->last >= begun &&
            trouble->error.message.starts_with(fmt::format("server {} is faulty or lies", server));
        EXPECT_EQ(named, server == liar) << "server " << int{server};
      }
      // The lie is not held against the server forever.
      const Duration until = begun + 2 * Troubles::kForgotten;
      cluster_.clock_of(kClient).call_after(2 * Troubles::kForgotten, [] {});
      cluster_.run_until([&] { return cluster_.clock_of(kClient).now() >= until; });
    }
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  check_contents();
}

// A server's share is wrong, because its memory errs or it lies. The two other shares are right, so
// every read is right, and the server gets the right share before anything else is computed with
// the wrong one.
TEST_P(LyingRetrieval, AWrongShareUnderARightChecksumCostsNoBlock) {
  if (cluster_.params().security != Security::malicious) return;  // evictions spread it
  for (Party server = 1; server <= 3; ++server) {
    ASSERT_OK(cluster_.close_client());
    unsigned at = 0;
    change_slots(server, [&](Bytes& share) {
      if (++at % 7 == server) share[at % share.size()] ^= 1;
    });
    ASSERT_OK(cluster_.open_client());
    for (unsigned again = 0; again < 2; ++again) ASSERT_NO_FATAL_FAILURE(check_contents());
    EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
    const auto healed = cluster_.run(cluster_.engine().scrub({}));
    ASSERT_OK(healed);
    EXPECT_EQ(healed->lost, 0u);
  }
}

// Values that nobody asks for are checked too, or else only a read of a block would show the lie.
TEST_P(LyingRetrieval, AReadOfNothingFindsAWrongShare) {
  if (cluster_.params().security != Security::malicious) return;  // evictions spread it
  ASSERT_OK(cluster_.close_client());
  change_slots(2, [&](Bytes& share) { share[33] ^= 1; });
  ASSERT_OK(cluster_.open_client());
  Result<Bytes> content;
  const auto asked = questions_of(kNothing, content);
  ASSERT_OK(content);
  EXPECT_EQ(*content, Bytes(test::kBlockSize));
  EXPECT_EQ(count(asked, MessageType::retrieve), 2 * cluster_.params().scheme.quorum());
  EXPECT_GT(count(asked, MessageType::read_slot), 0);
  EXPECT_GT(count(asked, MessageType::heal_slot), 0);
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// A server spoils its part of an answer twice, shows a wrong share of a slot on the path, and does
// not take the right one. The shares of the others are right, so the read is, too, and the block
// gets a new path.
TEST_P(LyingRetrieval, ARefusalOfARightShareCostsNoRead) {
  const auto quorum = static_cast<Party>(cluster_.params().scheme.quorum());
  unsigned moved = 0;
  for (Party liar = 1; liar <= quorum; ++liar)
    for (const Errc code : {Errc::bad_request, Errc::corrupt, Errc::former_view}) {
      SCOPED_TRACE(fmt::format("server {}, code {}", liar, static_cast<int>(code)));
      lie(liar, 2);
      bool shown = false, refused = false;
      const auto spoil = cluster_.network.filter;
      cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
        if (from != liar || to != kClient || !is_answer(message)) return spoil(from, to, message);
        Bytes lie = message;
        if (type_of(message) == MessageType::read_slot && message[4] == 0 && !shown) {
          shown = true;
          lie[Rpc::kHeaderSize + 40] ^= 1;
        } else if (type_of(message) == MessageType::heal_slot) {
          refused = true;
          lie.resize(Rpc::kHeaderSize);
          lie[4] = static_cast<std::uint8_t>(code);
        } else {
          return spoil(from, to, message);
        }
        cluster_.network.deliver(from, to, lie);
        return false;
      };
      std::set<Leaf> leaves;
      cluster_.network.observer = [&](Party from, Party, const Bytes& message) {
        if (from != kClient || type_of(message) != MessageType::retrieve) return;
        leaves.insert(decode<RetrieveRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize))->leaf);
      };
      const auto content = cluster_.read(3);
      ASSERT_OK(content);
      EXPECT_EQ(*content, pattern(3, newest_[3], test::kBlockSize));
      cluster_.settle();
      EXPECT_EQ(lies_, 2u);
      EXPECT_TRUE(shown);
      EXPECT_TRUE(refused);
      EXPECT_EQ(leaves.size(), 1u);
      cluster_.network.filter = {};
      ASSERT_OK(cluster_.read(3));
      cluster_.network.observer = {};
      moved += leaves.size() > 1;  // only a few bits of a leaf are sent, so it may look the same
      EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
    }
  EXPECT_GT(moved, 0u);
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// A server that planted a wrong share, or that helps with a new one, gains nothing: when an access
// heals a slot, no server keeps its share of the slot.
TEST_P(LyingRetrieval, HealingGivesEveryServerAFreshShare) {
  if (cluster_.params().security != Security::malicious) return;
  ASSERT_OK(cluster_.close_client());
  const std::size_t size = cluster_.disk(2).content(cluster_.slots()).size();
  const std::size_t stride = cluster_.params().slot_size() + BucketVersion::kTrailer;
  for (std::size_t at = cluster_.params().root_buffer_slots() * stride; at < size; at += stride)
    cluster_.disk(2).rot("slots", at + 40, 4);
  cluster_.stop_server(2);
  cluster_.start_server(2);
  ASSERT_OK(cluster_.open_client());
  std::map<std::pair<Party, SlotAddress>, Bytes> read, written;
  std::map<std::pair<Party, std::uint64_t>, SlotAddress> asked;
  cluster_.network.observer = [&](Party from, Party to, const Bytes& message) {
    const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
    std::uint64_t number = 0;
    std::memcpy(&number, message.data() + 8, sizeof number);
    if (type_of(message) == MessageType::read_slot && from == kClient)
      asked[{to, number}] = decode<ReadSlotRequest>(body)->at;
    else if (type_of(message) == MessageType::read_slot && message[4] == 0 && message[5] == 0)
      read[{from, asked.at({from, number})}] = Bytes(body.begin(), body.end());
    else if (type_of(message) == MessageType::heal_slot && is_question(message))
      if (const auto heal = decode<HealSlotRequest>(body))
        written[{to, heal->at}] = Bytes(heal->share.begin(), heal->share.end());
  };
  ASSERT_NO_FATAL_FAILURE(check_contents());
  cluster_.network.observer = {};
  ASSERT_FALSE(read.empty());
  for (const auto& [where, share] : read) {
    ASSERT_TRUE(written.contains(where)) << "server " << int{where.first};
    EXPECT_NE(written[where], share) << "server " << int{where.first};
  }
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
}

// A server says that its shares are damaged, and then answers with wrong ones. The client writes
// nothing that does not open.
TEST_P(LyingRetrieval, FalseDamageCostsNoBlock) {
  if (cluster_.params().security != Security::malicious) return;
  const std::set<SlotAddress> slots = written_slots();
  ASSERT_FALSE(slots.empty());
  for (Party liar = 1; liar <= 3; ++liar) {
    bool refused = false;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from != liar || to != kClient || !is_answer(message)) return true;
      Bytes lie = message;
      if (type_of(message) == MessageType::retrieve && !std::exchange(refused, true)) {
        lie.resize(Rpc::kHeaderSize);
        lie[4] = static_cast<std::uint8_t>(Errc::corrupt);
      } else if (type_of(message) == MessageType::damage) {
        lie = encode(DamageAnswer{{slots.begin(), slots.end()}});
        std::copy_n(message.begin(), Rpc::kHeaderSize, lie.begin());
      } else if (type_of(message) == MessageType::read_slot && message[4] == 0) {
        // The error is never the same twice, because two false shares could cancel out.
        lie[Rpc::kHeaderSize + 40 + ++lies_ % 100] ^= 1;
      } else {
        return true;
      }
      cluster_.network.deliver(from, to, lie);
      return false;
    };
    ASSERT_OK(cluster_.read(3));
    cluster_.settle();
    EXPECT_TRUE(refused);
    cluster_.network.filter = {};
    ASSERT_NO_FATAL_FAILURE(check_contents());
  }
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
}

// If one server refuses something that the others accept, it is asked again, and nothing else ends.
TEST_P(LyingRetrieval, ARefusalOfOneServerEndsNothing) {
  for (Party liar = 1; liar <= cluster_.servers(); ++liar)
    for (const Errc code : {Errc::bad_request, Errc::unsupported, Errc::former_view, Errc::corrupt})
      for (const MessageType type :
           {MessageType::retrieve, MessageType::write_root, MessageType::commit,
            MessageType::release, MessageType::prepare}) {
        unsigned lies = 0;
        cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
          if (from != liar || to != kClient || !is_answer(message) || type_of(message) != type ||
              lies == 2)
            return true;
          ++lies;
          Bytes lie(message.begin(), message.begin() + Rpc::kHeaderSize);
          lie[4] = static_cast<std::uint8_t>(code);
          lie.insert(lie.end(), {'n', 'o'});
          cluster_.network.deliver(from, to, lie);
          return false;
        };
        for (BlockId block = 0; block < 3; ++block) {
          ASSERT_NO_FATAL_FAILURE(write(block, newest_[block] + 1));
          const auto content = cluster_.read(block);
          ASSERT_OK(content);
        }
        cluster_.settle();
        cluster_.network.filter = {};
        EXPECT_GT(lies, 0u);
        ASSERT_EQ(cluster_.engine().status().failure, "")
            << "server " << int{liar} << ", " << static_cast<int>(type) << ", "
            << static_cast<int>(code);
        ASSERT_FALSE(cluster_.engine().status().evictions_stopped);
      }
  ASSERT_NO_FATAL_FAILURE(check_contents());
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
}

// A server never answers a retrieval with a block. The others' shares show what the block was.
TEST_P(LyingRetrieval, AnswersThatAreNoneCostNoBlock) {
  for (Party liar = 1; liar <= cluster_.params().scheme.quorum(); ++liar)
    for (const bool is_refused : {false, true}) {
      cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
        if (from != liar || to != kClient || !is_answer(message) ||
            type_of(message) != MessageType::retrieve)
          return true;
        Bytes lie(message.begin(), message.begin() + Rpc::kHeaderSize);
        if (is_refused) lie[4] = static_cast<std::uint8_t>(Errc::corrupt);
        lie.insert(lie.end(), {'n', 'o'});
        cluster_.network.deliver(from, to, lie);
        return false;
      };
      for (const BlockId block : {BlockId{3}, BlockId{8}, kNothing}) {
        const auto content = cluster_.read(block);
        ASSERT_OK(content);
        EXPECT_EQ(*content, block == kNothing ? Bytes(test::kBlockSize)
                                              : pattern(block, newest_[block], test::kBlockSize));
        cluster_.settle();
      }
      cluster_.network.filter = {};
    }
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// The server sends its peer an old message in place of the right one, so that the peer waits.
TEST_P(LyingRetrieval, WhatWasNotSentIsNotWaitedForForEver) {
  if (cluster_.params().security != Security::malicious) return;
  for (const MessageType type :
       {MessageType::masked_share, MessageType::relay, MessageType::subshare}) {
    Bytes before;
    bool lied = false;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from != 2 || to == kClient || !is_question(message) || type_of(message) != type || lied)
        return true;
      const Bytes old = std::exchange(before, message);
      if (old.empty()) return true;
      lied = true;
      Bytes lie(message.begin(), message.begin() + Rpc::kHeaderSize);
      lie.insert(lie.end(), old.begin() + Rpc::kHeaderSize, old.end());
      cluster_.network.deliver(from, to, lie);
      return false;
    };
    for (BlockId block = 0; block < 10; ++block) {
      ASSERT_NO_FATAL_FAILURE(write(block, newest_[block] + 1));
      const auto content = cluster_.read(block);
      ASSERT_OK(content);
      EXPECT_EQ(*content, pattern(block, newest_[block], test::kBlockSize));
    }
    EXPECT_TRUE(lied) << static_cast<int>(type);
    cluster_.network.filter = {};
  }
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// The server tells the client that it has relayed a part of a root write, but has not done so.
TEST_P(LyingRetrieval, APartThatIsOnlySaidToBeRelayedIsNotWaitedForForEver) {
  unsigned withheld = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (to == kClient || !is_question(message) || type_of(message) != MessageType::relay)
      return true;
    ++withheld;
    // An honest server answers the client when it has this answer.
    Bytes taken(message.begin(), message.begin() + Rpc::kHeaderSize);
    taken[0] = static_cast<std::uint8_t>(MessageKind::bulk_answer);
    cluster_.network.deliver(to, from, taken);
    return false;
  };
  for (BlockId block = 0; block < 6; ++block)
    ASSERT_NO_FATAL_FAILURE(write(block, newest_[block] + 1));
  ASSERT_OK(cluster_.commit());
  settle_evictions();
  cluster_.network.filter = {};
  const VolumeParams& params = cluster_.params();
  const bool one_block_up = params.privacy == Privacy::computational && params.scheme.servers == 3;
  EXPECT_EQ(withheld > 0, one_block_up);
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// Blocks that fit nowhere move to the client's stash, while accesses to them are under way.
class Overflowing : public LyingRetrieval {
 protected:
  using Chosen = std::function<bool(const RetrieveRequest&)>;

  /// From now on holds all answers to the retrievals that `chosen` takes.
  void hold(Chosen chosen) {
    cluster_.network.filter = [this, chosen = std::move(chosen)](Party from, Party to,
                                                                 const Bytes& message) {
      if (type_of(message) != MessageType::retrieve) return true;
      std::uint64_t number = 0;
      std::memcpy(&number, message.data() + 8, sizeof number);
      if (from == kClient && is_question(message)) {
        const auto request = decode<RetrieveRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
        if (chosen(*request)) chosen_.emplace(to, number);
      }
      if (to != kClient || !is_answer(message) || !chosen_.contains({from, number})) return true;
      held_.emplace_back(from, message);
      return false;
    };
  }
  /// Delivers them. With `altered`, a bit is flipped in each that holds a block; returns how many
  /// those are.
  unsigned let_go(bool altered) {
    unsigned flipped = 0;
    for (auto& [from, message] : std::exchange(held_, {})) {
      const bool holds_block = message.size() >= cluster_.params().slot_size();
      if (altered && holds_block) message[message.size() - 100] ^= 4;
      flipped += altered && holds_block;
      cluster_.network.deliver(from, kClient, message);
    }
    cluster_.settle();
    return flipped;
  }
  static std::uint64_t wrong_answers() {
    return EngineMetrics(unread_metrics()).wrong_answers.value();
  }

  std::set<std::pair<Party, std::uint64_t>> chosen_;
  std::vector<std::pair<Party, Bytes>> held_;
};
INSTANTIATE_TEST_SUITE_P(Volumes, Overflowing,
                         testing::Values(test::shuffle_volume(1, 4, 2),
                                         test::mirror_volume(1, 4, 2)),
                         test::volume_name);

// While a block is retrieved for the stash, it is written, and has another version. The answer is
// what was asked for, so that no server is called a liar, and nothing is asked for again.
TEST_P(Overflowing, AnAnswerThatWasRightWhenItWasAskedForIsRight) {
  const std::uint64_t before = wrong_answers();
  hold([](const RetrieveRequest& request) { return request.write_number == kNoWriteNumber; });
  unsigned written = 0, held = 0;
  constexpr unsigned kRounds = 100;
  for (unsigned round = 0; round < kRounds; ++round) {
    const BlockId block = 5 * round % kBlocks;
    ++newest_[block];
    cluster_.engine().write(block, pattern(block, newest_[block], test::kBlockSize),
                            [&](const Status& status) { written += status.has_value(); });
    cluster_.settle();
    if (round % cluster_.params().evict_every != 0) continue;
    held += !held_.empty();
    let_go(false);
  }
  for (cluster_.network.filter = {}; !held_.empty();) let_go(false);
  cluster_.run_until([&] { return written == kRounds; });
  EXPECT_GT(held, 5u);
  EXPECT_EQ(wrong_answers(), before);
  check_contents();
}

// The answer to a read is altered. Before it arrives, the block has moved to the stash. The answer
// is asked for again nevertheless, because the liar must not see which blocks have moved.
TEST_P(Overflowing, AWrongAnswerIsFoundAlthoughItIsNotNeeded) {
  const auto evict_every = cluster_.params().evict_every;
  for (unsigned round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    settle_evictions();
    const auto group = [&](const RetrieveRequest& request) {
      return request.write_number / evict_every;
    };
    std::optional<WriteNumber> first;
    hold([&](const RetrieveRequest& request) {
      if (request.write_number == kNoWriteNumber) return false;
      if (!first) first = group(request);
      return group(request) != *first;
    });
    unsigned read = 0;
    for (unsigned i = 0; i < 2u * evict_every; ++i) {
      const BlockId block = (7 * round + i) % kBlocks;
      cluster_.engine().read(block, [&, block](const Result<Bytes>& content) {
        ++read;
        ASSERT_OK(content);
        EXPECT_EQ(*content, pattern(block, newest_[block], test::kBlockSize));
      });
    }
    cluster_.settle();
    cluster_.network.filter = {};
    const std::uint64_t before = wrong_answers();
    const unsigned lies = let_go(true);
    EXPECT_GT(lies, 0u);
    EXPECT_EQ(wrong_answers() - before, lies);
    cluster_.run_until([&] { return read == 2u * evict_every; });
  }
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  check_contents();
}

// Servers alter what they relay of a root write. Each server has the client's digest of what it is
// to get, so that no wrong share, and no wrong copy, is in the root afterwards.
class RelayedParts : public LyingRetrieval {};
S3O_WITH_EACH_SCHEME(RelayedParts);

TEST_P(RelayedParts, ThatWereAlteredAreNotTaken) {
  const VolumeParams& params = cluster_.params();
  const auto evictions = [&] { return cluster_.engine().status().evictions; };
  for (const auto before = evictions(); evictions() == before; settle_evictions())
    ASSERT_NO_FATAL_FAILURE(write(1, newest_[1] + 1));
  const auto evicted = evictions();
  unsigned altered = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (to == kClient || !is_question(message) || type_of(message) != MessageType::relay)
      return true;
    ++altered;
    Bytes changed = message;
    changed[changed.size() - 100] ^= 4;
    cluster_.network.deliver(from, to, changed);
    return false;
  };
  ASSERT_NO_FATAL_FAILURE(write(2, newest_[2] + 1));
  cluster_.settle();
  cluster_.network.filter = {};
  const bool one_block_up = params.privacy == Privacy::computational && params.scheme.servers == 3;
  EXPECT_EQ(altered > 0, one_block_up);
  ASSERT_EQ(evictions(), evicted) << "an eviction would find and replace what is wrong";
  const auto healed = cluster_.run(cluster_.engine().scrub({}));
  ASSERT_OK(healed);
  EXPECT_EQ(healed->total() + healed->lost, 0u);
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// A server asks for its session to be opened again, and then says that another client has the
// volume.
TEST_P(LyingRetrieval, OneServerCannotEndASessionWhenItIsOpenedAgain) {
  for (const Errc code : {Errc::stale_vault, Errc::fenced, Errc::bad_request, Errc::corrupt}) {
    unsigned lies = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      const bool opens = type_of(message) == MessageType::open;
      if (from != 2 || to != kClient || !is_answer(message) || lies == 8 ||
          (!opens && type_of(message) != MessageType::retrieve))
        return true;
      ++lies;
      Bytes lie(message.begin(), message.begin() + Rpc::kHeaderSize);
      lie[4] = static_cast<std::uint8_t>(opens ? code : Errc::need_open);
      cluster_.network.deliver(from, to, lie);
      return false;
    };
    for (BlockId block = 0; block < 3; ++block) {
      const auto content = cluster_.read(block);
      ASSERT_OK(content);
      EXPECT_EQ(*content, pattern(block, newest_[block], test::kBlockSize));
    }
    cluster_.settle();
    cluster_.network.filter = {};
    EXPECT_EQ(lies, 8u);
    EXPECT_EQ(cluster_.engine().status().failure, "");
  }
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// Two shares under one mask would show their difference if a slot was healed in between.
TEST_P(LyingRetrieval, AMaskedShareIsSentOnce) {
  if (cluster_.params().privacy != Privacy::computational) return;
  Bytes question;
  std::map<std::uint64_t, unsigned> sent;
  cluster_.network.observer = [&](Party from, Party to, const Bytes& message) {
    if (!is_question(message)) return;
    if (from == kClient && to == 1 && type_of(message) == MessageType::retrieve) question = message;
    if (from != 1 || type_of(message) != MessageType::masked_share) return;
    const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
    if (++sent[decode<MaskedShareRequest>(body)->request_id] > 1) return;
    // The request that led to it comes again, but not as a repetition.
    Bytes again = question;
    const std::uint64_t number = 0x2000000 + sent.size();
    std::memcpy(again.data() + 8, &number, sizeof number);
    cluster_.inject(kClient, 1, again);
  };
  for (unsigned i = 0; i < 6; ++i) {
    ASSERT_OK(cluster_.read(i));
    cluster_.settle();
  }
  cluster_.network.observer = {};
  ASSERT_FALSE(sent.empty());
  for (const auto& [request_id, times] : sent) EXPECT_EQ(times, 1u) << request_id;
}

// A peer relays parts of writes that nobody makes, under ever new numbers.
TEST_P(LyingRetrieval, RelayedPartsOfAPeerAreFew) {
  if (cluster_.params().scheme != Scheme{1, 3}) return;
  std::uint64_t epoch = 0;
  WriteNumber write_number = 0;
  cluster_.network.observer = [&](Party from, Party, const Bytes& message) {
    if (from != kClient || !is_question(message) || type_of(message) != MessageType::write_root)
      return;
    const auto request = decode<WriteRootRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
    epoch = request->epoch;
    write_number = request->write_number;
  };
  ASSERT_OK(cluster_.write(1, pattern(1, 9, test::kBlockSize)));
  newest_[1] = 9;
  cluster_.settle();
  std::size_t refused = 0;
  cluster_.network.observer = [&](Party from, Party to, const Bytes& message) {
    refused += from == 2 && to == 3 && is_answer(message);
  };
  const Bytes part(cluster_.params().slot_size());
  constexpr std::size_t kCount = 5000;
  for (std::size_t i = 0; i < kCount; ++i) {
    Bytes message =
        encode(RelayRequest{epoch, write_number + 1, (~std::uint64_t{0} >> 1) - i, part});
    message[0] = static_cast<std::uint8_t>(MessageKind::bulk_question);
    message[1] = Rpc::kWireVersion;
    message[2] = static_cast<std::uint8_t>(MessageType::relay);
    const std::uint64_t number = 0x1000000 + i;
    std::memcpy(message.data() + 8, &number, sizeof number);
    cluster_.inject(3, 2, message);
    cluster_.settle();
  }
  EXPECT_GE(refused, kCount - 2 * cluster_.params().root_buffer_slots());
  cluster_.network.observer = {};
  ASSERT_OK(cluster_.close_client());
  go_on();
}

}  // namespace
}  // namespace s3oram
