// Servers that help to repair another one, and lie about it. Marks that the lost server gave before
// show it (docs/protocol.md, "Share marks").
#include "oramcore/field/gf256.h"
#include "oramcore/sharing/shamir.h"
#include "tests/sim/filled_volume.h"

namespace s3oram {
namespace {

using test::pattern;

class Marks : public test::FilledVolume {
 protected:
  static MessageType type_of(const Bytes& message) { return static_cast<MessageType>(message[2]); }
  static std::uint64_t number_of(const Bytes& message) {
    std::uint64_t number = 0;
    std::memcpy(&number, message.data() + 8, sizeof number);
    return number;
  }

  void lose(Party server) {
    ASSERT_OK(cluster_.commit());
    settle_evictions();
    cluster_.kill_client();
    cluster_.kill_server(server);
    cluster_.lose(server);
    cluster_.start_server(server);
    ASSERT_OK(cluster_.reenrol({server}));
    ASSERT_OK(cluster_.open_client());
  }
  Result<Healed> repair(std::set<Party> servers) {
    return cluster_.run(cluster_.engine().scrub(std::move(servers)));
  }
  /// Damages every `every`th slot on the server's disk behind the root's, or puts it back if it was
  /// damaged before.
  void damage_slots(Party server, std::size_t every) {
    const std::size_t stride = cluster_.params().slot_size() + BucketVersion::kTrailer;
    const std::size_t size = cluster_.disk(server).content(cluster_.slots()).size();
    for (std::size_t at = cluster_.params().root_buffer_slots() * stride; at < size;
         at += every * stride)
      cluster_.disk(server).rot("slots", at + 40, 4);
  }
  /// Returns whether the status names the server.
  bool is_named(Party server) {
    const auto trouble = cluster_.engine().status().servers[server - 1u].trouble;
    return trouble && trouble->error.message.find("it is faulty or lies") != std::string::npos;
  }
  /// Changes all shares in the server's buckets, as if it had written them like that. The root
  /// buffer stays as it is, because a lie there shows without marks.
  void lie_about_buckets(Party liar) {
    std::size_t slot = 0;
    change_slots(liar, [&](Bytes& share) {
      if (slot++ >= root_slots_written_) share[share.size() / 2] ^= 4;
    });
  }
  /// Damages slots of server 2, and changes the buckets of server 1. `before`: what those were.
  void damage_beside_a_liar(std::vector<Bytes>& before) {
    ASSERT_NO_FATAL_FAILURE(fill_and_settle());
    ASSERT_OK(cluster_.close_client());
    damage_slots(2, cluster_.params().bucket_size);
    cluster_.stop_server(2);
    cluster_.start_server(2);
    before = buckets_of(1);
    ASSERT_NO_FATAL_FAILURE(lie_about_buckets(1));
    ASSERT_OK(cluster_.open_client());
  }
  /// Takes back what server 1 lied about. Then a repair of server 3 leaves nothing lost or
  /// unproven.
  void repair_without_the_lie() {
    ASSERT_NO_FATAL_FAILURE(lie_about_buckets(1));
    const auto healed = repair({3});
    ASSERT_OK(healed);
    EXPECT_EQ(healed->lost + healed->unproven, 0u);
    ASSERT_NO_FATAL_FAILURE(check_contents());
  }
  /// The marks for which a server was asked after a repair.
  struct MarksAsked {
    std::size_t messages = 0;
    std::set<BucketIndex> buckets;
  };
  /// Observes, from now on, the buckets of which servers are asked for marks after a repair.
  std::shared_ptr<const std::map<Party, MarksAsked>> note_marks_asked() {
    auto asked = std::make_shared<std::map<Party, MarksAsked>>();
    cluster_.network.observer = [asked](Party from, Party to, const Bytes& message) {
      if (from != kClient || !is_question(message) || type_of(message) != MessageType::mark_buckets)
        return;
      const auto request = decode<MarkBucketsRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      ++(*asked)[to].messages;
      for (const auto& each : request->buckets) (*asked)[to].buckets.insert(each.bucket);
    };
    return asked;
  }
  /// Counts, from now on, the slots by bucket that servers are told to disown.
  std::shared_ptr<const std::map<BucketIndex, std::size_t>> note_disowned() {
    auto disowned = std::make_shared<std::map<BucketIndex, std::size_t>>();
    cluster_.network.observer = [disowned](Party from, Party, const Bytes& message) {
      if (from != kClient || !is_question(message) || type_of(message) != MessageType::disown)
        return;
      const auto request = decode<DisownRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      (*disowned)[request->bucket] += request->slots.size();
    };
    return disowned;
  }
  /// Changes the server's shares so that they lie on one polynomial with those about which `liar`
  /// lies (lie_about_buckets()) and with those of the third server.
  void follow_the_lie(Party server, Party liar, Party third) {
    const std::uint8_t weight = lagrange_at(server, Bytes{liar, third})[0];
    std::size_t slot = 0;
    change_slots(server, [&](Bytes& share) {
      if (slot++ >= root_slots_written_) share[share.size() / 2] ^= gf::mul(weight, 4);
    });
  }
  /// Begins to repair the server, and kills the client when shares have been restored and none of
  /// them has been proven.
  void cut_repair_short(Party server) {
    bool cut = false;
    cluster_.network.filter = [&](Party, Party to, const Bytes& message) {
      if (to != server || type_of(message) != MessageType::mark_buckets) return true;
      cut = true;
      return false;
    };
    const auto ended = begin_repair({server});
    cluster_.run_until([&] { return cut; });
    ASSERT_FALSE(*ended);
    cluster_.kill_client();
    cluster_.settle();
    cluster_.network.filter = {};
  }
  std::shared_ptr<std::optional<Result<Healed>>> begin_repair(std::set<Party> servers) {
    auto ended = std::make_shared<std::optional<Result<Healed>>>();
    spawn(cluster_.context.get_executor(),
          [](Engine& engine, std::set<Party> which,
             std::shared_ptr<std::optional<Result<Healed>>> out) -> Task<void> {
            out->emplace(co_await engine.scrub(std::move(which)));
          }(cluster_.engine(), std::move(servers), ended));
    return ended;
  }
  /// Writes all blocks several times, so that evictions rewrite every bucket.
  void write_all(std::uint64_t generation) {
    for (const std::uint64_t end = generation + 3; generation < end; ++generation)
      for (BlockId block = 0; block < kBlocks; ++block)
        ASSERT_NO_FATAL_FAILURE(write(block, generation));
  }
  void fill_and_settle() {
    ASSERT_NO_FATAL_FAILURE(fill());
    settle_evictions();
    ASSERT_OK(cluster_.commit());
    root_slots_written_ = cluster_.params().root_buffer_slots();
  }

  std::size_t root_slots_written_ = 0;
};
const VolumeParams kMarked[] = {test::safe_volume(Evictor::shuffle, 2),
                                test::safe_volume(Evictor::shuffle, 3)};
INSTANTIATE_TEST_SUITE_P(Volumes, Marks, testing::ValuesIn(kMarked), [](const auto& test) {
  return fmt::format("A{}", test.param.evict_every);
});

// The tree has grown several times, so some buckets have got their content from others.
TEST_P(Marks, ProveEveryBucketOfAnHonestRepair) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  for (Party lost = 1; lost <= 3; ++lost) {
    ASSERT_NO_FATAL_FAILURE(lose(lost));
    const auto asked = note_marks_asked();
    const auto healed = repair({lost});
    cluster_.network.observer = {};
    ASSERT_OK(healed);
    EXPECT_GT(healed->total(), 0u);
    EXPECT_EQ(healed->lost, 0u);
    EXPECT_EQ(healed->unproven, 0u);
    ASSERT_EQ(asked->size(), 1u) << "only the repaired server is asked";
    EXPECT_GT(asked->at(lost).buckets.size(), 8u);
    EXPECT_LT(asked->at(lost).messages, asked->at(lost).buckets.size());
    for (Party server = 1; server <= 3; ++server) EXPECT_FALSE(is_named(server));
    ASSERT_NO_FATAL_FAILURE(check_contents());
    for (BlockId block = 0; block < kBlocks; block += 3)
      ASSERT_NO_FATAL_FAILURE(write(block, 50 + lost));
  }
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
}

// The helper tells the repaired server and the client the same, so all shares lie on lines.
TEST_P(Marks, ShowWhoTellsBothTheSameLie) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  for (const auto& [lost, liar] : {std::pair<Party, Party>{3, 1}, {1, 2}}) {
    ASSERT_NO_FATAL_FAILURE(lose(lost));
    ASSERT_NO_FATAL_FAILURE(lie_about_buckets(liar));
    const auto lied_to = repair({lost});
    ASSERT_OK(lied_to);
    EXPECT_GT(lied_to->lost, 0u);
    for (Party server = 1; server <= 3; ++server)
      EXPECT_EQ(is_named(server), server == liar) << "server " << int{server};
    // Nothing was computed with what it sent: once it tells the truth, the repair is completed.
    ASSERT_NO_FATAL_FAILURE(lie_about_buckets(liar));  // takes the change back
    const auto healed = repair({lost});
    ASSERT_OK(healed);
    EXPECT_GT(healed->total(), 0u);
    EXPECT_EQ(healed->lost, 0u);
    EXPECT_EQ(healed->unproven, 0u);
    ASSERT_NO_FATAL_FAILURE(check_contents());
    const auto again = repair({});
    ASSERT_OK(again);
    EXPECT_EQ(again->total() + again->lost, 0u);
  }
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  ASSERT_OK(cluster_.close_client());
  go_on();
}

// A helper lies, and the other one has meanwhile a damaged slot in each bucket, so it shows no
// whole bucket whose shares fit. The liar is found out all the same.
TEST_P(Marks, ShowALiarBesideAServerWithDamagedSlots) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  ASSERT_NO_FATAL_FAILURE(lose(3));
  ASSERT_NO_FATAL_FAILURE(lie_about_buckets(1));
  std::set<std::uint64_t> of_damaged;  // numbers of questions
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (type_of(message) != MessageType::read_slot) return true;
    if (from == kClient && to == 2 && is_question(message)) {
      const auto read = decode<ReadSlotRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      const unsigned buffer = cluster_.params().root_buffer_slots();
      const bool in_root_buffer = read->at.bucket == kRoot && read->at.slot < buffer;
      const unsigned slot = read->at.bucket == kRoot ? read->at.slot - buffer : read->at.slot;
      if (!in_root_buffer && slot % cluster_.params().bucket_size == 0)
        of_damaged.insert(number_of(message));
    }
    if (from != 2 || to != kClient || !of_damaged.contains(number_of(message))) return true;
    Bytes damaged = message;
    damaged.resize(Rpc::kHeaderSize);
    damaged[4] = static_cast<std::uint8_t>(Errc::corrupt);
    cluster_.network.deliver(from, to, damaged);
    return false;
  };
  const auto lied_to = repair({3});
  cluster_.network.filter = {};
  ASSERT_OK(lied_to);
  EXPECT_FALSE(of_damaged.empty());
  EXPECT_GT(lied_to->lost, 0u);
  EXPECT_EQ(lied_to->unproven, 0u);
  for (Party server = 1; server <= 3; ++server)
    EXPECT_EQ(is_named(server), server == 1) << "server " << int{server};
  ASSERT_NO_FATAL_FAILURE(repair_without_the_lie());
}

// A helper says that its shares are damaged. That may be a lie, or true of an honest server's disk,
// and nothing shows which. It is not called a liar, but the report says which servers say so.
TEST_P(Marks, DoNotHideWhoCallsItsSharesDamaged) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  ASSERT_NO_FATAL_FAILURE(lose(3));
  const auto damage_or_put_back = [&] {
    cluster_.stop_server(1);
    damage_slots(1, 1);
    cluster_.start_server(1);
  };
  damage_or_put_back();
  const auto found = repair({3});
  ASSERT_OK(found);
  EXPECT_GT(found->lost, 0u);
  const std::map<Party, std::uint64_t> said{{1, found->lost}, {3, found->lost}};
  EXPECT_EQ(found->lost_at, said);
  for (Party server = 1; server <= 3; ++server) EXPECT_FALSE(is_named(server));
  damage_or_put_back();
  const auto healed = repair({3});
  ASSERT_OK(healed);
  EXPECT_EQ(healed->lost + healed->unproven, 0u);
  EXPECT_TRUE(healed->lost_at.empty());
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// What a scrub does not restore has come from no other server, and a second reading of it would
// prove nothing.
TEST_P(Marks, AreAskedForOfWhatWasRestored) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  auto asked = note_marks_asked();
  ASSERT_OK(repair({}));
  EXPECT_TRUE(asked->empty());
  ASSERT_OK(cluster_.close_client());
  damage_slots(2, 5 * cluster_.params().bucket_size);
  cluster_.stop_server(2);
  cluster_.start_server(2);
  ASSERT_OK(cluster_.open_client());
  asked = note_marks_asked();
  const auto healed = repair({});
  cluster_.network.observer = {};
  ASSERT_OK(healed);
  ASSERT_GT(healed->shares.at(2), 0u);
  EXPECT_EQ(healed->lost + healed->unproven, 0u);
  ASSERT_EQ(asked->size(), 1u);
  EXPECT_LE(asked->at(2).buckets.size(), healed->shares.at(2));
}

// A repair is cut short when a liar's shares have been written, and nothing has been proven.
// Nothing is computed with them: the volume is not mounted before they are proven or disowned.
TEST_P(Marks, ProveWhatARepairThatWasCutShortHasLeft) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  ASSERT_NO_FATAL_FAILURE(lose(3));
  ASSERT_NO_FATAL_FAILURE(lie_about_buckets(1));
  ASSERT_NO_FATAL_FAILURE(cut_repair_short(3));
  for (unsigned again = 0; again < 2; ++again) {
    const Status refused = cluster_.open_client();
    ASSERT_FALSE(refused) << "with the shares that server 1 has sent";
    EXPECT_EQ(refused.error().code, Errc::servers_disagree) << refused.error().message;
  }
  ASSERT_NO_FATAL_FAILURE(lie_about_buckets(1));  // takes the change back
  ASSERT_OK(cluster_.open_client());
  ASSERT_NO_FATAL_FAILURE(check_contents());
  ASSERT_NO_FATAL_FAILURE(write_all(20));
  ASSERT_NO_FATAL_FAILURE(check_contents());
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  for (Party server = 1; server <= 3; ++server) {
    EXPECT_FALSE(is_named(server));
    EXPECT_EQ(cluster_.engine().status().servers[server - 1u].unrepaired, server == 3);
  }
  const auto healed = repair({3});
  ASSERT_OK(healed);
  EXPECT_EQ(healed->lost, 0u);
  EXPECT_FALSE(cluster_.engine().status().servers[2].unrepaired);
  const auto again = repair({});
  ASSERT_OK(again);
  EXPECT_EQ(again->total() + again->lost, 0u);
}

// If the liar has shown the client its right shares, a mount puts right what the repair has left.
TEST_P(Marks, AreComparedAtTheNextMount) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  ASSERT_NO_FATAL_FAILURE(lose(3));
  ASSERT_NO_FATAL_FAILURE(lie_about_buckets(1));
  ASSERT_NO_FATAL_FAILURE(cut_repair_short(3));
  ASSERT_NO_FATAL_FAILURE(lie_about_buckets(1));  // takes the change back
  const auto asked = note_marks_asked();
  ASSERT_OK(cluster_.open_client());
  cluster_.network.observer = {};
  EXPECT_FALSE(asked->at(3).buckets.empty());
  ASSERT_OK(cluster_.close_client());
  ASSERT_OK(cluster_.open_client());
  const auto healed = repair({3});
  ASSERT_OK(healed);
  EXPECT_GT(healed->total(), 0u);
  EXPECT_EQ(healed->lost + healed->unproven, 0u);
  for (Party server = 1; server <= 3; ++server) EXPECT_FALSE(is_named(server));
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// A scrub of a mounted volume fails when it has restored all shares, but not proven the last ones.
TEST_P(Marks, AreComparedBeforeTheNextEviction) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  const auto damage = [&] {
    ASSERT_OK(cluster_.close_client());
    damage_slots(2, cluster_.params().bucket_size);
    cluster_.stop_server(2);
    cluster_.start_server(2);
    ASSERT_OK(cluster_.open_client());
  };
  ASSERT_NO_FATAL_FAILURE(damage());
  const auto all = note_marks_asked();
  ASSERT_OK(repair({}));
  cluster_.network.observer = {};
  BucketIndex last = 0;
  for (const BucketIndex bucket : all->at(2).buckets)
    if (bucket < kStashBucket) last = std::max(last, bucket);
  ASSERT_NO_FATAL_FAILURE(damage());
  std::set<std::uint64_t> refused;  // numbers of questions
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (type_of(message) != MessageType::mark_buckets) return true;
    if (from == kClient && to == 2 && is_question(message)) {
      const auto asked = decode<MarkBucketsRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      if (std::ranges::any_of(asked->buckets,
                              [&](const auto& each) { return each.bucket == last; }))
        refused.insert(number_of(message));
    }
    if (from != 2 || to != kClient || !refused.contains(number_of(message))) return true;
    Bytes refusal = message;
    refusal.resize(Rpc::kHeaderSize);
    refusal[4] = static_cast<std::uint8_t>(Errc::unsupported);
    cluster_.network.deliver(from, to, refusal);
    return false;
  };
  ASSERT_FALSE(repair({}));
  cluster_.network.filter = {};
  EXPECT_FALSE(refused.empty());
  const auto asked = note_marks_asked();
  for (BlockId block = 0; block < 4; ++block) ASSERT_NO_FATAL_FAILURE(write(block, 20));
  settle_evictions();
  cluster_.network.observer = {};
  ASSERT_EQ(asked->size(), 1u);
  EXPECT_TRUE(asked->at(2).buckets.contains(last));
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// After a repair that failed, and before the next eviction, a repaired server is to get the shares
// that fit its mark. It refuses them, but nobody depends on what it stores.
TEST_P(Marks, ARefusalOfARightShareEndsNothing) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  ASSERT_OK(cluster_.close_client());
  damage_slots(2, cluster_.params().bucket_size);
  cluster_.stop_server(2);
  cluster_.start_server(2);
  ASSERT_OK(cluster_.open_client());
  unsigned refused = 0;
  bool repairs = true;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from != 2 || to != kClient || !is_answer(message)) return true;
    Bytes lie = message;
    if (type_of(message) == MessageType::mark_buckets) {
      if (repairs) lie.resize(Rpc::kHeaderSize);
      lie[repairs ? 4 : lie.size() - 3] ^= static_cast<std::uint8_t>(Errc::unsupported);
    } else if (type_of(message) == MessageType::read_slot && message[4] == 0 && !repairs) {
      lie.back() ^= 1;
    } else if (type_of(message) == MessageType::heal_slot && !repairs) {
      ++refused;
      lie.resize(Rpc::kHeaderSize);
      lie[4] = static_cast<std::uint8_t>(Errc::corrupt);
    } else {
      return true;
    }
    cluster_.network.deliver(from, to, lie);
    return false;
  };
  ASSERT_FALSE(repair({}));
  repairs = false;
  for (BlockId block = 0; block < 4; ++block) ASSERT_NO_FATAL_FAILURE(write(block, 20));
  settle_evictions();
  cluster_.network.filter = {};
  EXPECT_GT(refused, 0u);
  EXPECT_EQ(cluster_.engine().status().failure, "");
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// Server 3 has got its shares from a liar, in a repair of which vault.db does not know.
TEST_P(Marks, AreAskedForOfAWholeRepairedServer) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  ASSERT_NO_FATAL_FAILURE(lie_about_buckets(1));
  ASSERT_NO_FATAL_FAILURE(follow_the_lie(3, 1, 2));
  const auto lied_to = repair({3});
  ASSERT_OK(lied_to);
  EXPECT_GT(lied_to->lost, 0u);
  for (Party server = 1; server <= 3; ++server)
    EXPECT_EQ(is_named(server), server == 1) << "server " << int{server};
  ASSERT_NO_FATAL_FAILURE(repair_without_the_lie());
}

// Server 2 has a damaged slot in some buckets, which is mended with a liar's share. Its other
// shares are its own. They are kept, and show what the liar's were.
TEST_P(Marks, HealALiarBesideASlotThatWasDamagedBefore) {
  std::vector<Bytes> before;
  ASSERT_NO_FATAL_FAILURE(damage_beside_a_liar(before));
  const auto disowned = note_disowned();
  const auto lied_to = repair({});
  cluster_.network.observer = {};
  ASSERT_OK(lied_to);
  for (Party server = 1; server <= 3; ++server)
    EXPECT_EQ(is_named(server), server == 1) << "server " << int{server};
  ASSERT_FALSE(disowned->empty());
  for (const auto& [bucket, slots] : *disowned) EXPECT_EQ(slots, 1u) << "bucket " << bucket;
  EXPECT_EQ(lied_to->lost, disowned->size());
  EXPECT_GT(lied_to->shares.at(1), lied_to->lost) << "the liar's other shares are healed";
  ASSERT_OK(cluster_.close_client());
  const auto now = buckets_of(1);
  ASSERT_EQ(now.size(), before.size());
  std::size_t wrong = 0;
  for (std::size_t slot = 0; slot < now.size(); ++slot) wrong += now[slot] != before[slot];
  EXPECT_GE(wrong, disowned->size());
  EXPECT_LE(wrong * cluster_.params().bucket_size, now.size()) << "nobody has the right ones";
}

// The same repair is cut short before anything was proven. The next mount compares no shares with
// each other, so nothing but the marks shows it which of the liar's shares to replace.
TEST_P(Marks, HealALiarAtTheNextMount) {
  std::vector<Bytes> before;
  ASSERT_NO_FATAL_FAILURE(damage_beside_a_liar(before));
  ASSERT_NO_FATAL_FAILURE(cut_repair_short(2));
  const Status refused = cluster_.open_client();
  ASSERT_FALSE(refused) << "some shares that server 1 has sent cannot be proven";
  EXPECT_EQ(refused.error().code, Errc::servers_disagree) << refused.error().message;
  const auto now = buckets_of(1);
  ASSERT_EQ(now.size(), before.size());
  std::size_t healed = 0;
  for (std::size_t slot = 0; slot < now.size(); ++slot) healed += now[slot] == before[slot];
  EXPECT_GT(healed, 0u);
}

// The helper lies about a bucket's shares, and calls one of them damaged, so that the bucket cannot
// be compared with its mark. Nothing is computed with what it has sent.
TEST_P(Marks, DoNotLetDamageHideALie) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  ASSERT_NO_FATAL_FAILURE(lose(3));
  ASSERT_NO_FATAL_FAILURE(lie_about_buckets(1));
  const auto damage_or_put_back = [&] {
    cluster_.stop_server(1);
    damage_slots(1, cluster_.params().bucket_size);
    cluster_.start_server(1);
  };
  damage_or_put_back();
  const auto disowned = note_disowned();
  const auto lied_to = repair({3});
  cluster_.network.observer = {};
  ASSERT_OK(lied_to);
  EXPECT_GT(lied_to->lost, 0u);
  EXPECT_FALSE(disowned->empty()) << "server 3 keeps what a liar has sent it";
  damage_or_put_back();
  ASSERT_NO_FATAL_FAILURE(lie_about_buckets(1));  // takes the change back
  ASSERT_NO_FATAL_FAILURE(write_all(20));
  ASSERT_NO_FATAL_FAILURE(check_contents());
  EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
}

// At most one server lies. If no server has the shares of its mark, nothing may be given up for it.
TEST_P(Marks, ThatFitNoServerAreNotBelieved) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  ASSERT_NO_FATAL_FAILURE(lose(3));
  ASSERT_NO_FATAL_FAILURE(lie_about_buckets(1));
  ASSERT_NO_FATAL_FAILURE(lie_about_buckets(2));
  const auto healed = repair({3});
  ASSERT_OK(healed);
  EXPECT_EQ(healed->lost, 0u);
  EXPECT_GT(healed->unproven, 0u);
  for (Party server = 1; server <= 3; ++server) EXPECT_FALSE(is_named(server));
  // The shares are still there: what fits is back when the change is undone everywhere.
  for (Party server = 1; server <= 3; ++server) ASSERT_NO_FATAL_FAILURE(lie_about_buckets(server));
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// The helper lies about one slot, to both. What the client then asks for does not depend on what is
// in the slot: a block, an old copy of one, or nothing.
TEST_P(Marks, AreCheckedAlikeWhateverIsInTheSlot) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  const std::uint8_t weight = lagrange_at(3, Bytes{1, 2})[0];
  std::set<std::map<std::pair<Party, MessageType>, unsigned>> reactions;
  std::set<SlotAddress> slots;
  const auto lie_about = [&](const SlotAddress& target) {
    ASSERT_NO_FATAL_FAILURE(lose(3));
    std::map<std::uint64_t, SlotAddress> mended;                   // by request id
    std::map<std::pair<Party, std::uint64_t>, SlotAddress> asked;  // by server and number
    std::map<std::pair<Party, MessageType>, unsigned> questions;
    unsigned lies = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
      const MessageType type = type_of(message);
      Bytes lie = message;
      if (from == kClient && is_question(message)) {
        if (type == MessageType::contribute)
          mended[decode<ContributeRequest>(body)->request_id] = decode<ContributeRequest>(body)->at;
        if (type == MessageType::contribute) slots.insert(decode<ContributeRequest>(body)->at);
        if (type == MessageType::read_slot)
          asked[{to, number_of(message)}] = decode<ReadSlotRequest>(body)->at;
        if (type == MessageType::read_slot || type == MessageType::heal_slot ||
            type == MessageType::disown || type == MessageType::mark_buckets)
          ++questions[{to, type}];
      } else if (from == 1 && to == 3 && type == MessageType::masked_share &&
                 is_question(message) &&
                 mended[decode<MaskedShareRequest>(body)->request_id] == target) {
        lie[lie.size() - 100] ^= gf::mul(weight, 5);
      } else if (from == 1 && to == kClient && type == MessageType::read_slot &&
                 body.size() == cluster_.params().slot_size() &&
                 asked[{1, number_of(message)}] == target) {
        lie[lie.size() - 100] ^= 5;
      }
      if (lie == message) return true;
      ++lies;
      cluster_.network.deliver(from, to, lie);
      return false;
    };
    const auto healed = repair({3});
    cluster_.network.filter = {};
    ASSERT_OK(healed);
    if (target.bucket == 0) return;  // only to learn which slots there are
    EXPECT_GT(lies, 1u);
    EXPECT_EQ(healed->lost, 1u) << target.bucket << " " << target.slot;
    EXPECT_TRUE(is_named(1));
    reactions.insert(questions);
    const auto again = repair({3});
    ASSERT_OK(again);
    EXPECT_EQ(again->lost + again->unproven, 0u);
  };
  ASSERT_NO_FATAL_FAILURE(lie_about({}));
  std::set<SlotAddress> targets;
  std::set<BucketIndex> chosen;
  for (const SlotAddress& at : slots)
    if (at.bucket != kRoot && (chosen.size() < 2 || chosen.contains(at.bucket)) &&
        at.slot % 2 == 0) {
      targets.insert(at);
      chosen.insert(at.bucket);
    }
  ASSERT_GT(targets.size(), 4u);
  for (const SlotAddress& target : targets) ASSERT_NO_FATAL_FAILURE(lie_about(target));
  EXPECT_EQ(reactions.size(), 1u) << "servers see what is in the slot that one of them lied about";
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// The helper shows the client what it has, but sends the repaired server something else.
TEST_P(Marks, PutRightWhatAHelperDoesNotShow) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  ASSERT_NO_FATAL_FAILURE(lose(3));
  unsigned lies = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from != 2 || to != 3 || !is_question(message) ||
        type_of(message) != MessageType::masked_share || ++lies % 5 != 0)
      return true;
    Bytes lie = message;
    lie[lie.size() - 100] ^= 4;
    cluster_.network.deliver(from, to, lie);
    return false;
  };
  const auto healed = repair({3});
  cluster_.network.filter = {};
  ASSERT_OK(healed);
  EXPECT_GT(lies, 5u);
  EXPECT_EQ(healed->lost + healed->unproven, 0u);
  const auto again = repair({});
  ASSERT_OK(again);
  EXPECT_EQ(again->total() + again->lost, 0u);
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// A server of an older version gives no marks, and neither does one that does not want to.
TEST_P(Marks, ThatAreMissingAreReported) {
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from != 3 || to != kClient || type_of(message) != MessageType::mark_prepared) return true;
    Bytes refusal = message;
    refusal.resize(Rpc::kHeaderSize);
    refusal[4] = static_cast<std::uint8_t>(Errc::bad_request);
    cluster_.network.deliver(from, to, refusal);
    return false;
  };
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  for (const auto& server : cluster_.engine().status().servers) EXPECT_FALSE(server.trouble);
  cluster_.network.filter = {};
  ASSERT_NO_FATAL_FAILURE(lose(3));
  auto healed = repair({3});
  ASSERT_OK(healed);
  EXPECT_EQ(healed->lost, 0u);
  EXPECT_GT(healed->unproven, 8u);
  ASSERT_NO_FATAL_FAILURE(lose(2));
  healed = repair({2});
  ASSERT_OK(healed);
  EXPECT_EQ(healed->lost + healed->unproven, 0u) << "this server gave its marks";
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// Without vault.db nothing is known of the marks, until evictions make new ones.
TEST_P(Marks, AreLostWithTheClientAndComeBack) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  ASSERT_OK(cluster_.close_client());
  cluster_.lose_client();
  ASSERT_OK(cluster_.rebuild_client());
  ASSERT_OK(cluster_.open_client());
  ASSERT_NO_FATAL_FAILURE(lose(3));
  auto healed = repair({3});
  ASSERT_OK(healed);
  EXPECT_EQ(healed->lost, 0u);
  EXPECT_GT(healed->unproven, 0u);
  for (std::uint64_t generation = 20; generation < 28; ++generation)
    for (BlockId block = 0; block < kBlocks; ++block)
      ASSERT_NO_FATAL_FAILURE(write(block, generation));
  settle_evictions();
  ASSERT_NO_FATAL_FAILURE(lose(3));
  healed = repair({3});
  ASSERT_OK(healed);
  EXPECT_EQ(healed->lost + healed->unproven, 0u);
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// An access that heals a slot gives all servers fresh shares. Their marks are made again, or none
// are left if the client is killed meanwhile. No server must be named for it, wherever that is.
TEST_P(Marks, DoNotOutliveTheirShares) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  ASSERT_OK(cluster_.close_client());
  damage_slots(2, 3);
  cluster_.stop_server(2);
  cluster_.start_server(2);
  ASSERT_OK(cluster_.open_client());
  unsigned written = 0;
  cluster_.network.observer = [&](Party from, Party, const Bytes& message) {
    written +=
        from == kClient && is_question(message) && type_of(message) == MessageType::heal_slot;
  };
  // Some slots are healed; the client is killed in the middle of one.
  for (BlockId block = 0; block < kBlocks / 2; ++block) ASSERT_OK(cluster_.read(block));
  ASSERT_GT(written, 0u);
  const unsigned before = written;
  const auto unread = std::make_shared<std::optional<Result<Bytes>>>();
  for (BlockId block = kBlocks / 2; block < kBlocks && written == before; ++block) {
    unread->reset();
    cluster_.engine().read(block,
                           [unread](Result<Bytes> content) { *unread = std::move(content); });
    cluster_.run_until([&] { return unread->has_value() || written > before; });
  }
  cluster_.network.observer = {};
  cluster_.kill_client();
  ASSERT_OK(cluster_.open_client());
  const auto scrubbed = repair({2});  // what is still damaged
  ASSERT_OK(scrubbed);
  EXPECT_EQ(scrubbed->lost, 0u);
  ASSERT_NO_FATAL_FAILURE(lose(3));
  const auto healed = repair({3});
  ASSERT_OK(healed);
  EXPECT_EQ(healed->lost, 0u);
  for (Party server = 1; server <= 3; ++server) EXPECT_FALSE(is_named(server));
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// The client is killed when one server has its fresh share of a healed slot, and the others have
// not. That server then shows another share than when the bucket was written, and is honest.
TEST_P(Marks, AreForgottenBeforeFreshSharesAreWritten) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  ASSERT_OK(cluster_.close_client());
  damage_slots(2, 3);
  cluster_.stop_server(2);
  cluster_.start_server(2);
  ASSERT_OK(cluster_.open_client());
  bool reached = false;  // share 1 is not damaged, so only the fresh one is written there
  cluster_.network.observer = [&](Party from, Party to, const Bytes& message) {
    reached |= from == 1 && to == kClient && is_answer(message) &&
               type_of(message) == MessageType::heal_slot;
  };
  const auto unread = std::make_shared<std::optional<Result<Bytes>>>();
  for (BlockId block = 0; block < kBlocks && !reached; ++block) {
    unread->reset();
    cluster_.engine().read(block,
                           [unread](Result<Bytes> content) { *unread = std::move(content); });
    cluster_.run_until([&] { return unread->has_value() || reached; });
  }
  ASSERT_TRUE(reached);
  cluster_.network.observer = {};
  cluster_.kill_client();
  cluster_.kill_server(3);
  cluster_.lose(3);
  cluster_.start_server(3);
  ASSERT_OK(cluster_.reenrol({3}));
  ASSERT_OK(cluster_.open_client());
  settle_evictions();
  for (Party server = 1; server <= 3; ++server) EXPECT_FALSE(is_named(server));
  ASSERT_OK(repair({3}));
  for (Party server = 1; server <= 3; ++server) EXPECT_FALSE(is_named(server));
}

// A server calls sound slots damaged, so that the marks of their buckets are forgotten. Whether it
// takes the fresh shares or not, the other servers have new marks. So if one of them loses its
// store and this server lies as a helper, the lie is caught all the same.
TEST_P(Marks, AreMadeAgainAfterAHealing) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  for (const bool refuses : {false, true}) {
    std::vector<SlotAddress> slots;
    for (BucketIndex bucket = kRoot + 1; bucket < kRoot + 8; ++bucket) slots.push_back({bucket, 1});
    bool failed = false, claimed = false;
    unsigned healed = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from != 1 || to != kClient || !is_answer(message)) return true;
      Bytes lie = message;
      if (type_of(message) == MessageType::prepare && !failed) {
        failed = true;
        lie.resize(Rpc::kHeaderSize);
        lie[4] = static_cast<std::uint8_t>(Errc::failed);
      } else if (type_of(message) == MessageType::damage && !claimed) {
        claimed = true;
        lie = encode(DamageAnswer{slots});
        std::copy_n(message.begin(), Rpc::kHeaderSize, lie.begin());
      } else if (type_of(message) == MessageType::heal_slot) {
        ++healed;
        if (!refuses) return true;
        lie.resize(Rpc::kHeaderSize);
        lie[4] = static_cast<std::uint8_t>(Errc::corrupt);
      } else {
        return true;
      }
      cluster_.network.deliver(from, to, lie);
      return false;
    };
    for (BlockId block = 0; block < 4; ++block) ASSERT_NO_FATAL_FAILURE(write(block, 20));
    settle_evictions();
    cluster_.network.filter = {};
    EXPECT_TRUE(claimed);
    EXPECT_GE(healed, 7u);
    ASSERT_NO_FATAL_FAILURE(lose(3));
    ASSERT_NO_FATAL_FAILURE(lie_about_buckets(1));
    const auto lied_to = repair({3});
    ASSERT_OK(lied_to);
    EXPECT_GT(lied_to->lost, 0u);
    EXPECT_EQ(lied_to->unproven, 0u);
    for (Party server = 2; server <= 3; ++server) EXPECT_FALSE(is_named(server));
    EXPECT_TRUE(is_named(1));
    if (refuses) break;  // it has no right share to show
    ASSERT_NO_FATAL_FAILURE(repair_without_the_lie());
    EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
  }
}

// A server that lies as a helper, when an access meets a slot that another one has lost, is named.
TEST_P(Marks, NameWhoeverSpoilsASlotThatAnAccessMeets) {
  ASSERT_NO_FATAL_FAILURE(fill_and_settle());
  ASSERT_OK(cluster_.close_client());
  damage_slots(2, 1);
  cluster_.stop_server(2);
  cluster_.start_server(2);
  ASSERT_NO_FATAL_FAILURE(lie_about_buckets(1));
  ASSERT_OK(cluster_.open_client());
  for (BlockId block = 0; block < kBlocks && !is_named(1); ++block)
    static_cast<void>(cluster_.read(block));
  EXPECT_TRUE(is_named(1));
  EXPECT_FALSE(is_named(2) || is_named(3));
}

}  // namespace
}  // namespace s3oram
