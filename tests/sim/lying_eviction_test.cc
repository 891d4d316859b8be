// A server that lies in an eviction costs only time: the client notices before it decides, no block
// is lost or marked, and the client's reaction shows the liar nothing.
#include "oramcore/field/gf256.h"
#include "oramcore/protocol/hop_check.h"
#include "oramcore/protocol/permutation.h"
#include "oramcore/protocol/repair_messages.h"
#include "oramcore/protocol/signed_hops.h"
#include "tests/sim/filled_volume.h"

namespace s3oram {
namespace {

using test::pattern;

enum class Step : std::uint16_t { first_to_second = 0, second_to_third = 1, last = 2, audit = 3 };

/// A message that one role sends to another.
struct Hop {
  unsigned from, to;
  Step step;
};
constexpr Hop kHops[] = {{1, 2, Step::first_to_second},
                         {2, 3, Step::second_to_third},
                         {3, 1, Step::last},
                         {1, 3, Step::last},
                         {2, 1, Step::audit}};

class LyingEviction : public testing::Test {
 protected:
  static constexpr BlockId kBlocks = 24;
  static constexpr std::uint16_t kEvery = 4;

  void SetUp() override {
    spdlog::set_level(spdlog::level::off);
    ASSERT_OK(cluster_.open_client());
    for (std::uint64_t generation = 1; generation <= 3; ++generation)
      for (BlockId block = 0; block < kBlocks; ++block)
        ASSERT_OK(cluster_.write(block, pattern(block, generation, test::kBlockSize)));
    cluster_.settle();
    cluster_.network.observer = [this](Party from, Party to, const Bytes& message) {
      if (from == kClient && is_question(message)) note_question(to, message);
    };
  }

  // ---- the attempt under way

  static MessageType type_of(const Bytes& message) { return static_cast<MessageType>(message[2]); }
  static ByteSpan body_of(const Bytes& message) {
    return ByteSpan(message).subspan(Rpc::kHeaderSize);
  }
  void note_question(Party to, const Bytes& message) {
    if (type_of(message) == MessageType::traffic) return;
    transcript_.emplace_back(to, type_of(message), message.size());
    const auto request = decode<PrepareRequest>(body_of(message));
    if (type_of(message) != MessageType::prepare || !request) return;
    if (!eviction_) eviction_ = request->id.eviction;
    if (request->id.eviction != *eviction_) return;  // another eviction became due meanwhile
    if (request->id != attempt_) ++attempts_;
    attempt_ = request->id;
    if (auto orders = decode_any_shuffle_orders(request->orders)) orders_[to] = std::move(*orders);
    height_ = request->height;
  }
  unsigned role_of(Party server) { return (server + 3u - orders_[server].first_server) % 3 + 1; }
  Party server_of(unsigned role) {
    return static_cast<Party>((orders_[1].first_server + role - 2u) % 3 + 1);
  }
  std::size_t rows() const {
    return PathSlots::evicted(cluster_.params(), attempt_.eviction, height_).count();
  }

  // ---- lies

  /// `change` may change a message before it arrives, or return false to leave it as it is.
  using Change = std::function<bool(Party from, Party to, Bytes& message)>;
  void lie(Change change) {
    cluster_.network.filter = [this, change](Party from, Party to, const Bytes& message) {
      Bytes changed = message;
      if (from == kClient || !change(from, to, changed)) return true;
      ++lies_;
      cluster_.network.deliver(from, to, changed);
      return false;
    };
  }
  void tell_the_truth() {
    cluster_.network.filter = {};
    lies_ = 0;
  }
  /// Changes what `hop` passes on in the current attempt.
  bool change_share(const Hop& hop, Party from, Party to, Bytes& message,
                    const std::function<void(Bytes& share)>& change) {
    if (type_of(message) != MessageType::subshare || !is_question(message)) return false;
    auto request = decode<SubshareRequest>(body_of(message));
    if (!request || request->id != attempt_ || request->step != static_cast<int>(hop.step) ||
        role_of(from) != hop.from || role_of(to) != hop.to)
      return false;
    Bytes share(request->share.begin(), request->share.end());
    const auto& secret = orders_[from].sign;
    if (secret) share.resize(share.size() - sizeof(HopSignature));
    change(share);
    if (secret) {  // the liar signs what it says
      const ShuffleHop signs{hop.from, hop.to, request->step};
      const HopSignature signature = sign_hop(*secret, hop_hash(signs, request->tile, share));
      share.insert(share.end(), signature.begin(), signature.end());
    }
    request->share = share;
    Bytes changed = encode(*request);
    std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
    message = std::move(changed);
    return true;
  }
  /// Changes the report of `role` in the current attempt.
  bool change_report(unsigned role, Party from, Bytes& message,
                     const std::function<void(Bytes& report)>& change) {
    if (type_of(message) != MessageType::prepare || is_question(message) || role_of(from) != role)
      return false;
    auto answer = decode<PrepareAnswer>(body_of(message));
    if (!answer || attempts_ != 1) return false;
    Bytes report(answer->report.begin(), answer->report.end());
    change(report);
    answer->report = report;
    Bytes changed = encode(*answer);
    std::copy_n(message.begin(), Rpc::kHeaderSize, changed.begin());
    message = std::move(changed);
    return true;
  }

  // ---- the outcome

  /// Returns the server that the client has named last since `then`; 0 if none.
  Party named_since(Duration then) {
    Party named = 0;
    Duration last = then;
    const auto servers = cluster_.engine().status().servers;
    for (Party server = 1; server <= servers.size(); ++server) {
      const auto& trouble = servers[server - 1u].trouble;
      if (!trouble || trouble->last < last ||
          !trouble->error.message.starts_with(fmt::format("server {} is faulty or lies", server)))
        continue;
      named = server;
      last = trouble->last;
    }
    return named;
  }
  Duration now() { return cluster_.clock_of(kClient).now(); }

  std::uint64_t evictions() { return cluster_.engine().status().evictions; }
  /// Accesses blocks until `more` further evictions have ended.
  void evict(std::uint64_t more) {
    const std::uint64_t end = evictions() + more;
    for (std::uint64_t i = 0; evictions() < end; ++i) {
      ASSERT_LT(i, 200u);
      ASSERT_OK(cluster_.write(kBlocks + i % 4, pattern(i, 1, test::kBlockSize)));
      cluster_.settle();
    }
  }
  void await_evictions() {
    cluster_.run_until([&] {
      const auto status = cluster_.engine().status();
      return !status.evicting && status.evictions_due == 0;
    });
  }
  /// Accesses blocks until an eviction is due, and waits for its end.
  void evict_under_lies() {
    await_evictions();
    lies_ = attempts_ = 0;
    eviction_.reset();
    ASSERT_NO_FATAL_FAILURE(evict(1));
    await_evictions();
  }
  void expect_all_sound() {
    for (BlockId block = 0; block < kBlocks; ++block) {
      const auto content = cluster_.read(block);
      ASSERT_OK(content);
      ASSERT_EQ(*content, pattern(block, 3, test::kBlockSize)) << "block " << block;
    }
    EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  }
  void expect_nothing_to_heal() {
    const auto healed = cluster_.run(cluster_.engine().scrub({}));
    ASSERT_OK(healed);
    EXPECT_EQ(healed->total() + healed->lost, 0u);
  }

  test::Cluster cluster_{test::safe_volume(Evictor::shuffle, kEvery), 11};
  unsigned lies_ = 0, attempts_ = 0;
  std::optional<std::uint64_t> eviction_;  // the one in which the server lies
  EvictionId attempt_;                     // the last attempt at it
  std::map<Party, SignedShuffleOrders> orders_;
  std::uint8_t height_ = 0;
  bool signed_ = false;  // true after the first failed check
  std::vector<std::tuple<Party, MessageType, std::size_t>> transcript_;  // the client's requests
};

// Earlier attempts than the one with the lie fail for other reasons, so that roles have rotated.
TEST_F(LyingEviction, OneBitOfAnyHopIsCaughtWhicheverServerSendsIt) {
  for (const Hop& hop : kHops)
    for (unsigned rotated = 0; rotated < 3; ++rotated)
      for (const std::size_t from_end : {std::size_t{1}, std::size_t{300}}) {
        SCOPED_TRACE(fmt::format("role {} to {}, rotated {}", hop.from, hop.to, rotated));
        std::set<unsigned> lied_in;
        Party liar = 0;
        const Duration begun = now();
        lie([&](Party from, Party to, Bytes& message) {
          if (lied_in.contains(attempts_) || attempts_ > rotated + 1) return false;
          const bool changed = change_share(hop, from, to, message, [&](Bytes& share) {
            if (attempts_ <= rotated)
              share.pop_back();
            else
              share[share.size() - from_end] ^= 0x10;
          });
          if (changed) lied_in.insert(attempts_), liar = from;
          return changed;
        });
        ASSERT_NO_FATAL_FAILURE(evict_under_lies());
        EXPECT_EQ(lies_, rotated + 1);
        EXPECT_EQ(attempts_, rotated + 2);
        EXPECT_EQ(orders_[1].first_server, (rotated + 1) % 3 + 1);
        // From the second failure on, messages that servers pass on are signed.
        EXPECT_EQ(named_since(begun), std::exchange(signed_, true) ? liar : 0);
        tell_the_truth();
        ASSERT_NO_FATAL_FAILURE(expect_all_sound());
      }
  ASSERT_NO_FATAL_FAILURE(expect_nothing_to_heal());
}

template <class Report>
std::vector<std::size_t> list_begins(std::size_t rows, std::size_t kept) {
  Report report;
  std::vector<std::size_t> begins;
  std::size_t at = 0;
  report.visit(rows, kept, [&](HopList&, std::size_t size) {
    begins.push_back(at);
    at += size * sizeof(gf128::Element);
  });
  return begins;
}

TEST_F(LyingEviction, AFalseDigestInAnyListIsCaught) {
  bool is_signed = false;
  for (unsigned role = 1; role <= 3; ++role) {
    const std::size_t lists = role == 1 ? 3 : role == 2 ? 2 : 4;
    for (std::size_t list = 0; list < lists; ++list) {
      SCOPED_TRACE(fmt::format("role {}, list {}", role, list));
      const Duration begun = now();
      lie([&](Party from, Party, Bytes& message) {
        return lies_ == 0 && change_report(role, from, message, [&](Bytes& report) {
                 const std::size_t n = rows(), k = n - kEvery;
                 const auto begins = role == 1   ? list_begins<FirstReport>(n, k)
                                     : role == 2 ? list_begins<SecondReport>(n, k)
                                                 : list_begins<ThirdReport>(n, k);
                 const bool audit = role == 1 && list == 2;
                 report[begins[list] + (audit ? 0 : 16 * (n / 2)) + 3] ^= 0x80;
               });
      });
      ASSERT_NO_FATAL_FAILURE(evict_under_lies());
      EXPECT_EQ(lies_, 1u);
      EXPECT_EQ(attempts_, 2u);
      EXPECT_EQ(named_since(begun), std::exchange(is_signed, true) ? role : 0)
          << "the liar is named, not its peer";
      tell_the_truth();
      ASSERT_NO_FATAL_FAILURE(expect_all_sound());
    }
  }
}

// The client looks at the servers' raw shares to find out who lied. The liar shows false ones, or
// none, and so contradicts the others there too.
TEST_F(LyingEviction, ALiarThatHidesItsSharesIsNamedToo) {
  lie([&](Party from, Party, Bytes& message) {  // from now on, messages are signed
    return lies_ == 0 && change_report(1, from, message, [](Bytes& report) { report[3] ^= 1; });
  });
  ASSERT_NO_FATAL_FAILURE(evict_under_lies());
  constexpr Party kLiar = 2;
  enum class Shown { altered, cut, damaged, refused };
  for (const Shown shown : {Shown::altered, Shown::cut, Shown::damaged, Shown::refused}) {
    SCOPED_TRACE(static_cast<int>(shown));
    const Duration begun = now();
    bool lied = false;
    unsigned hidden = 0;
    Party named = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (const Party found = named_since(begun)) named = found;
      if (from != kLiar) return true;
      Bytes changed = message;
      const bool shows = to == kClient && is_answer(message) &&
                         type_of(message) == MessageType::read_slot && message[4] == 0;
      if (shows) {
        ++hidden;
        const bool fails = shown == Shown::damaged || shown == Shown::refused;
        if (shown == Shown::altered) changed.back() ^= 1;
        if (shown == Shown::cut) changed.pop_back();
        if (fails) changed.resize(Rpc::kHeaderSize);
        if (fails)
          changed[4] = static_cast<std::uint8_t>(shown == Shown::damaged ? Errc::corrupt
                                                                         : Errc::bad_request);
      } else if (!lied && attempts_ == 1) {
        for (const Hop& hop : kHops)
          lied = lied || (role_of(from) == hop.from &&
                          change_share(hop, from, to, changed,
                                       [](Bytes& share) { share[share.size() / 2] ^= 1; }));
        if (!lied) return true;
      } else {
        return true;
      }
      cluster_.network.deliver(from, to, changed);
      return false;
    };
    ASSERT_NO_FATAL_FAILURE(evict_under_lies());
    EXPECT_TRUE(lied);
    EXPECT_GT(hidden, 0u);
    EXPECT_EQ(named, kLiar);
    tell_the_truth();
    ASSERT_NO_FATAL_FAILURE(expect_all_sound());
  }
}

// A receiver that says that it got something else cannot blame the sender, whatever it shows: the
// sender's signature of another message, or a message that the sender did not sign.
TEST_F(LyingEviction, AReceiverCannotForgeReceipts) {
  enum class Shown { nothing, another_signature, another_hash };
  for (const Shown shown : {Shown::nothing, Shown::another_signature, Shown::another_hash}) {
    SCOPED_TRACE(static_cast<int>(shown));
    const Duration begun = now();
    lie([&](Party from, Party, Bytes& message) {
      return lies_ == 0 && change_report(2, from, message, [&](Bytes& report) {
               report[3] ^= 1;
               if (shown == Shown::another_signature) report.back() ^= 1;
               if (shown == Shown::another_hash) report[report.size() - HopReceipt::kSize] ^= 1;
             });
    });
    ASSERT_NO_FATAL_FAILURE(evict_under_lies());
    EXPECT_EQ(lies_, 1u);
    EXPECT_EQ(attempts_, 2u);
    EXPECT_EQ(named_since(begun), shown == Shown::nothing ? 0 : 2);
    tell_the_truth();
  }
  ASSERT_NO_FATAL_FAILURE(expect_all_sound());
}

// A sender cannot leave its receiver with a message that the sender did not sign.
TEST_F(LyingEviction, WhatIsNotSignedIsNotTaken) {
  for (const bool is_signed : {false, true}) {
    std::string said;
    cluster_.network.observer = [&, before = cluster_.network.observer](Party from, Party to,
                                                                        const Bytes& message) {
      before(from, to, message);
      if (to == kClient && is_answer(message) && type_of(message) == MessageType::prepare &&
          message[4] == static_cast<std::uint8_t>(Errc::servers_disagree))
        said.assign(message.begin() + Rpc::kHeaderSize, message.end());
    };
    lie([&](Party from, Party to, Bytes& message) {
      if (lies_ > 0 || attempts_ != 1 || role_of(from) != 1 || role_of(to) != 2 ||
          type_of(message) != MessageType::subshare || !is_question(message))
        return false;
      message[message.size() - 5] ^= 1;
      return true;
    });
    ASSERT_NO_FATAL_FAILURE(evict_under_lies());
    EXPECT_EQ(lies_, 1u);
    EXPECT_EQ(attempts_, 2u);
    EXPECT_EQ(said.ends_with("server 1 does not sign what it passes on"), is_signed) << said;
    tell_the_truth();
  }
  ASSERT_NO_FATAL_FAILURE(expect_all_sound());
}

TEST_F(LyingEviction, AReportOfAnotherSizeIsNone) {
  for (unsigned role = 1; role <= 3; ++role)
    for (const bool empty : {false, true}) {
      lie([&](Party from, Party, Bytes& message) {
        return lies_ == 0 && change_report(role, from, message, [&](Bytes& report) {
                 report.resize(empty ? 0 : report.size() - 16);
               });
      });
      ASSERT_NO_FATAL_FAILURE(evict_under_lies());
      EXPECT_EQ(attempts_, 2u);
      tell_the_truth();
      ASSERT_NO_FATAL_FAILURE(expect_all_sound());
    }
}

// The server lies in every attempt, whatever its role. Then the root's write numbers are used up,
// reads continue without writes, and nothing is lost.
TEST_F(LyingEviction, AServerThatAlwaysLiesStopsEvictionsAndLosesNothing) {
  lie([this](Party from, Party to, Bytes& message) {
    return from == 1 && std::ranges::any_of(kHops, [&](const Hop& hop) {
             return change_share(hop, from, to, message, [](Bytes& share) { share.back() ^= 1; });
           });
  });
  attempts_ = 0;
  eviction_.reset();
  Status written;
  std::uint64_t writes = 0;
  for (; written && writes < 100; ++writes) {
    written = cluster_.write(kBlocks, pattern(kBlocks, writes, test::kBlockSize));
    cluster_.settle();
  }
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::servers_disagree) << written.error().message;
  EXPECT_EQ(attempts_, 3u);
  EXPECT_GE(writes, kEvery);
  const auto status = cluster_.engine().status();
  ASSERT_TRUE(status.evictions_stopped);
  EXPECT_EQ(status.evictions_stopped->code, Errc::servers_disagree);
  EXPECT_TRUE(status.evictions_stopped->message.starts_with("server 1 is faulty or lies"))
      << status.evictions_stopped->message;
  EXPECT_EQ(status.failure, "") << "the block can be read";

  // Each path is asked for once; from then on blocks that were read are in the stash.
  std::map<Leaf, unsigned> asked;
  cluster_.network.observer = [&](Party from, Party to, const Bytes& message) {
    if (from == kClient && to == 2 && is_question(message) &&
        type_of(message) == MessageType::retrieve)
      ++asked[decode<RetrieveRequest>(body_of(message))->leaf];
  };
  for (unsigned again = 0; again < 2; ++again) ASSERT_NO_FATAL_FAILURE(expect_all_sound());
  EXPECT_FALSE(cluster_.write(0, pattern(0, 9, test::kBlockSize)));
  EXPECT_EQ(cluster_.engine().status().stash, kBlocks);
  ASSERT_OK(cluster_.read(1000));  // never written

  tell_the_truth();
  cluster_.kill_client();
  ASSERT_OK(cluster_.open_client());
  ASSERT_NO_FATAL_FAILURE(evict(3));
  ASSERT_NO_FATAL_FAILURE(expect_all_sound());
  ASSERT_NO_FATAL_FAILURE(expect_nothing_to_heal());
}

// The receiver calls a message of another size damage, and no server has any to heal.
TEST_F(LyingEviction, MessagesOfAWrongSizeStopEvictionsWithAReason) {
  lie([this](Party from, Party to, Bytes& message) {
    return from == 1 && std::ranges::any_of(kHops, [&](const Hop& hop) {
             return change_share(hop, from, to, message, [](Bytes& share) { share.pop_back(); });
           });
  });
  attempts_ = 0;
  eviction_.reset();
  Status written;
  for (std::uint64_t i = 0; written && i < 100; ++i) {
    written = cluster_.write(kBlocks, pattern(kBlocks, i, test::kBlockSize));
    cluster_.settle();
  }
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::servers_disagree) << written.error().message;
  EXPECT_LE(attempts_, 12u);
  const auto status = cluster_.engine().status();
  ASSERT_TRUE(status.evictions_stopped);
  EXPECT_NE(status.evictions_stopped->message.find("server 1 sent a subshare of the wrong size"),
            std::string::npos)
      << status.evictions_stopped->message;
  EXPECT_EQ(status.failure, "");
  ASSERT_NO_FATAL_FAILURE(expect_all_sound());
  tell_the_truth();
  cluster_.kill_client();
  ASSERT_OK(cluster_.open_client());
  ASSERT_NO_FATAL_FAILURE(evict(3));
  ASSERT_NO_FATAL_FAILURE(expect_all_sound());
}

// Server 1 says that it has passed everything on, and has not. The others wait until the client
// ends the attempt, which must not count as trouble with them.
TEST_F(LyingEviction, AServerThatPassesNothingOnStopsEvictionsAndBlamesNobody) {
  std::string blamed;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (to == kClient &&
        (type_of(message) == MessageType::damage || type_of(message) == MessageType::discard))
      for (const auto& server : cluster_.engine().status().servers)
        if (server.trouble && server.trouble->error.message.find("discards") != std::string::npos)
          blamed = server.trouble->error.message;
    if (from != 1 || to == kClient || !is_question(message) ||
        type_of(message) != MessageType::subshare)
      return true;
    Bytes taken(message.begin(), message.begin() + Rpc::kHeaderSize);
    taken[0] = static_cast<std::uint8_t>(MessageKind::bulk_answer);
    cluster_.network.deliver(to, from, taken);
    return false;
  };
  attempts_ = 0;
  eviction_.reset();
  for (std::uint64_t i = 0; i < 2 * kEvery; ++i)
    cluster_.engine().write(kBlocks, pattern(kBlocks, i, test::kBlockSize), [](const Status&) {});
  for (unsigned i = 0; i < 20 && !cluster_.engine().status().evictions_stopped; ++i)
    cluster_.pass(std::chrono::minutes(10));
  const auto status = cluster_.engine().status();
  ASSERT_TRUE(status.evictions_stopped);
  EXPECT_EQ(status.evictions_stopped->code, Errc::servers_disagree);
  EXPECT_EQ(attempts_, 4u);
  EXPECT_EQ(status.failure, "");
  EXPECT_EQ(blamed, "");
  ASSERT_NO_FATAL_FAILURE(expect_all_sound());
  cluster_.network.filter = {};
  cluster_.kill_client();
  ASSERT_OK(cluster_.open_client());
  ASSERT_NO_FATAL_FAILURE(evict(3));
  ASSERT_NO_FATAL_FAILURE(expect_all_sound());
}

// The messages of server 1 carry the same error in eight evictions (the attack in which half of a
// small volume was lost and nothing was found).
TEST_F(LyingEviction, WhatItPassesOnPoisonsNothing) {
  for (unsigned eviction = 0; eviction < 8; ++eviction) {
    lie([&](Party from, Party to, Bytes& message) {
      return attempts_ == 1 && change_share(kHops[0], from, to, message, [](Bytes& share) {
               for (std::uint8_t& byte : share) byte ^= 0x55;
             });
    });
    ASSERT_NO_FATAL_FAILURE(evict_under_lies());
    EXPECT_EQ(lies_, 1u);
    tell_the_truth();
  }
  ASSERT_NO_FATAL_FAILURE(expect_nothing_to_heal());
  ASSERT_NO_FATAL_FAILURE(expect_all_sound());
}

// Server 1 adds to a row, and takes it back in the message that it sends after the secret
// permutation, at the place to which it guesses that the row has moved. A check of the results
// alone would pass if the guess was right, and so tell the server.
TEST_F(LyingEviction, AGuessOfWhereARowGoesIsCaughtRightOrWrong) {
  const auto count = [](const auto& questions, MessageType type) {
    return std::ranges::count_if(questions,
                                 [&](const auto& each) { return std::get<1>(each) == type; });
  };
  const std::size_t width = cluster_.params().slot_size();
  std::vector<std::vector<std::tuple<Party, MessageType, std::size_t>>> seen;
  for (const bool right : {true, false, true, false}) {
    SCOPED_TRACE(right ? "right" : "wrong");
    std::size_t p = 0, behind = 0;
    const auto choose = [&] {  // a row, and the place where it or another row is kept
      const auto& second = orders_[2].second;
      Prg stream(*orders_[1].third, as_bytes("pi 3"));
      const Permutation third = random_permutation(rows(), stream);
      for (p = 0; third[second[p]] < kEvery;) ++p;
      std::size_t other = p + 1;
      while (third[second[other]] < kEvery) ++other;
      behind = third[second[right ? p : other]] - kEvery;
    };
    lie([&](Party from, Party to, Bytes& message) {
      if (attempts_ != 1 || from != 1) return false;
      const std::uint8_t error = 0x40;
      return change_share(kHops[0], from, to, message,
                          [&](Bytes& share) {
                            choose();
                            share[p * width + 5] ^= error;
                          }) ||
             change_share(kHops[3], from, to, message, [&](Bytes& share) {
               const std::uint8_t part = gf::mul(3, gf::inverse(2));
               share[behind * width + 5] ^= gf::mul(static_cast<std::uint8_t>(1 ^ part), error);
             });
    });
    transcript_.clear();
    ASSERT_NO_FATAL_FAILURE(evict_under_lies());
    EXPECT_EQ(lies_, 2u);
    EXPECT_EQ(attempts_, 2u);
    // All servers compare their shares of each bucket of the path, whatever was guessed.
    EXPECT_EQ(count(transcript_, MessageType::digests), 3 * (height_ + 1));
    seen.push_back(transcript_);
    tell_the_truth();
    ASSERT_NO_FATAL_FAILURE(expect_all_sound());
  }
  // From the second failure on, messages are signed, and all shares of the path are read.
  for (const auto& each : std::span(seen).subspan(1))
    for (const MessageType type :
         {MessageType::discard, MessageType::damage, MessageType::read_slot, MessageType::heal_slot,
          MessageType::mend})
      EXPECT_EQ(count(each, type), count(seen.back(), type)) << static_cast<int>(type);
  EXPECT_EQ(count(seen.back(), MessageType::read_slot),
            3 * PathSlots::evicted(cluster_.params(), attempt_.eviction, height_).count());
}

// Bytes that were right before: those of another attempt or eviction, or of another tile.
TEST_F(LyingEviction, ReplayedBytesAreCaught) {
  for (const Hop& hop : kHops) {
    Bytes before;
    lie([&](Party from, Party to, Bytes& message) {
      change_share(hop, from, to, message, [&](Bytes& share) { before = share; });
      return false;
    });
    ASSERT_NO_FATAL_FAILURE(evict_under_lies());
    ASSERT_FALSE(before.empty());
    lie([&](Party from, Party to, Bytes& message) {
      return attempts_ == 1 && change_share(hop, from, to, message, [&](Bytes& share) {
               before.resize(share.size());
               share = before;
             });
    });
    ASSERT_NO_FATAL_FAILURE(evict_under_lies());
    EXPECT_EQ(lies_, 1u);
    EXPECT_EQ(attempts_, 2u);
    tell_the_truth();
    ASSERT_NO_FATAL_FAILURE(expect_all_sound());
  }
}

TEST_F(LyingEviction, RowsExchangedAreCaught) {
  const std::size_t width = cluster_.params().slot_size();
  for (const Hop& hop : kHops) {
    if (hop.step == Step::audit) continue;  // the audit has one row
    lie([&](Party from, Party to, Bytes& message) {
      return attempts_ == 1 && change_share(hop, from, to, message, [&](Bytes& share) {
               std::swap_ranges(share.begin(), share.begin() + static_cast<std::ptrdiff_t>(width),
                                share.begin() + static_cast<std::ptrdiff_t>(width));
             });
    });
    ASSERT_NO_FATAL_FAILURE(evict_under_lies());
    EXPECT_EQ(attempts_, 2u);
    tell_the_truth();
  }
  ASSERT_NO_FATAL_FAILURE(expect_all_sound());
}

// No server knows the key by which it is checked; roles rotate.
TEST_F(LyingEviction, OrdersWithholdAServersOwnKey) {
  ASSERT_NO_FATAL_FAILURE(evict_under_lies());
  for (Party server = 1; server <= 3; ++server) {
    const auto& orders = orders_[server];
    const std::optional<Seed> keys[] = {orders.check_1, orders.check_2, orders.check_3};
    for (unsigned role = 1; role <= 3; ++role)
      EXPECT_EQ(keys[role - 1].has_value(), role != role_of(server));
  }
}

// A share that is wrong under a right checksum, in a slot of each bucket of the tree. It is found
// when an eviction's check fails, it is replaced, and evictions continue.
class WrongShare : public test::FilledVolume {};
INSTANTIATE_TEST_SUITE_P(Volumes, WrongShare,
                         testing::Values(test::safe_volume(Evictor::shuffle, 4)));

TEST_P(WrongShare, IsFoundAndHealedBeforeItSpoilsAnEviction) {
  ASSERT_NO_FATAL_FAILURE(fill());
  ASSERT_OK(cluster_.close_client());
  unsigned at = 0;
  change_slots(2, [&](Bytes& share) {
    if (++at % 5 == 0) share[200] ^= 1;
  });
  ASSERT_OK(cluster_.open_client());
  const std::uint64_t before = cluster_.engine().status().evictions;
  for (std::uint64_t i = 0; cluster_.engine().status().evictions < before + 9; ++i) {
    ASSERT_LT(i, 200u);
    ASSERT_OK(cluster_.write(kBlocks + i % 2, pattern(kBlocks, i, test::kBlockSize)));
    cluster_.settle();
  }
  EXPECT_FALSE(cluster_.engine().status().evictions_stopped);
  ASSERT_NO_FATAL_FAILURE(check_contents());
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
}

}  // namespace
}  // namespace s3oram
