// A server that lies while the client heals: it calls sound slots damaged, or slots that do not
// exist, and refuses what it is asked then. It can bring about a healing whenever it likes, because
// one follows each attempt at an eviction that fails. It ends nothing and costs no block.
#include "oramcore/protocol/repair_messages.h"
#include "tests/sim/filled_volume.h"

namespace s3oram {
namespace {

using test::pattern;

constexpr Errc kRefusals[] = {Errc::bad_request, Errc::corrupt, Errc::former_view};

MessageType type_of(const Bytes& message) { return static_cast<MessageType>(message[2]); }

Bytes with_body(const Bytes& message, const Bytes& body) {
  Bytes changed(message.begin(), message.begin() + Rpc::kHeaderSize);
  changed[4] = changed[5] = 0;  // no error
  changed.insert(changed.end(), body.begin(), body.end());
  return changed;
}

Bytes refusal(const Bytes& message, Errc code) {
  Bytes changed = with_body(message, {'n', 'o'});
  changed[4] = static_cast<std::uint8_t>(code);
  return changed;
}

Bytes damage(const Bytes& message, std::vector<SlotAddress> slots) {
  Bytes changed = encode(DamageAnswer{std::move(slots)});
  std::copy_n(with_body(message, {}).begin(), Rpc::kHeaderSize, changed.begin());
  return changed;
}

/// Makes one attempt at an eviction fail, and changes what else the server answers then.
class Liar {
 public:
  /// Returns what the server answers instead; std::nullopt leaves the answer as it is.
  using Lie = std::function<std::optional<Bytes>(const Bytes& answer)>;

  Liar(test::Cluster& cluster, Party server, Lie lie) : cluster_(cluster), server_(server) {
    cluster_.network.filter = [this, lie](Party from, Party to, const Bytes& message) {
      if (from != server_ || to != kClient || !is_answer(message)) return true;
      std::optional<Bytes> changed;
      if (failed_)
        changed = lie(message);
      else if (type_of(message) == MessageType::prepare)
        changed = refusal(message, Errc::failed);
      if (!changed) return true;
      failed_ = true;
      ++told[type_of(message)];
      cluster_.network.deliver(from, to, *changed);
      return false;
    };
  }
  ~Liar() { cluster_.network.filter = {}; }
  Liar(const Liar&) = delete;
  Liar& operator=(const Liar&) = delete;

  /// Checks that the volume lives, and that no other server is named.
  void expect_no_harm() {
    EXPECT_TRUE(failed_);
    const auto status = cluster_.engine().status();
    ASSERT_EQ(status.failure, "");
    ASSERT_FALSE(status.evictions_stopped);
    EXPECT_EQ(status.unreadable, 0u);
    for (Party server = 1; server <= cluster_.servers(); ++server)
      EXPECT_FALSE(server != server_ && is_named(server)) << "server " << int{server};
  }
  bool is_named() const { return is_named(server_); }

  std::map<MessageType, unsigned> told;  // lies

 private:
  bool is_named(Party server) const {
    const auto trouble = cluster_.engine().status().servers[server - 1u].trouble;
    return trouble && trouble->error.message.find("is faulty or lies") != std::string::npos;
  }

  test::Cluster& cluster_;
  const Party server_;
  bool failed_ = false;
};

class LyingHealing : public test::FilledVolume {
 protected:
  void SetUp() override {
    FilledVolume::SetUp();
    ASSERT_NO_FATAL_FAILURE(fill());
    settle_evictions();
  }
  /// Returns the slots of three buckets that evictions have written.
  std::vector<SlotAddress> sound_slots() {
    cluster_.stop_server(1);
    const auto control = Control::open("control.db", cluster_.disk(1));
    test::Cluster::require(control);
    std::vector<SlotAddress> slots;
    for (const auto& [bucket, ref] : control->layout())
      for (std::uint16_t slot = 0; bucket > kRoot && bucket < kRoot + 4 && slot < ref.slots; ++slot)
        slots.push_back({bucket, slot});
    cluster_.start_server(1);
    return slots;
  }
  /// Writes blocks until two evictions have ended.
  void evict() {
    const std::uint64_t end = cluster_.engine().status().evictions + 2;
    for (BlockId block = 0; cluster_.engine().status().evictions < end; ++block) {
      ASSERT_LT(block, kBlocks);
      ASSERT_NO_FATAL_FAILURE(write(block, newest_[block] + 1));
      cluster_.settle();
    }
    settle_evictions();
  }
  void await_forgetting() {
    const Duration until = cluster_.clock_of(kClient).now() + 2 * Troubles::kForgotten;
    cluster_.clock_of(kClient).call_after(2 * Troubles::kForgotten, [] {});
    cluster_.run_until([&] { return cluster_.clock_of(kClient).now() >= until; });
  }
  /// Returns whether the client gives a slot that heals its share itself.
  bool client_heals() const {
    return cluster_.params().security == Security::malicious ||
           cluster_.params().privacy == Privacy::information_theoretic;
  }
};
S3O_WITH_EACH_VOLUME(LyingHealing);

TEST_P(LyingHealing, ARefusalToReportDamageEndsNothing) {
  for (Party server = 1; server <= cluster_.servers(); ++server)
    for (const Errc code : kRefusals) {
      SCOPED_TRACE(fmt::format("server {}, code {}", server, static_cast<int>(code)));
      Liar liar(cluster_, server, [&](const Bytes& answer) -> std::optional<Bytes> {
        if (type_of(answer) != MessageType::damage || liar.told[MessageType::damage] == 2)
          return {};
        return refusal(answer, code);
      });
      ASSERT_NO_FATAL_FAILURE(evict());
      ASSERT_NO_FATAL_FAILURE(liar.expect_no_harm());
      EXPECT_GT(liar.told[MessageType::damage], 0u);
      EXPECT_TRUE(liar.is_named() || code == Errc::bad_request);
      await_forgetting();
    }
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// The server calls its shares of sound slots damaged, and then neither takes the right ones nor
// shows what it has.
TEST_P(LyingHealing, ARefusalOfAHealedShareEndsNothing) {
  const std::vector<SlotAddress> slots = sound_slots();
  ASSERT_FALSE(slots.empty());
  for (const MessageType refused : {MessageType::heal_slot, MessageType::read_slot})
    for (Party server = 1; server <= cluster_.servers(); ++server)
      for (const Errc code : kRefusals) {
        SCOPED_TRACE(fmt::format("type {}, server {}, code {}", static_cast<int>(refused), server,
                                 static_cast<int>(code)));
        Liar liar(cluster_, server, [&](const Bytes& answer) -> std::optional<Bytes> {
          if (type_of(answer) == MessageType::damage && liar.told[MessageType::damage] == 0)
            return damage(answer, slots);
          if (type_of(answer) != refused || liar.told[refused] == 20) return {};
          return refusal(answer, code);
        });
        ASSERT_NO_FATAL_FAILURE(evict());
        ASSERT_NO_FATAL_FAILURE(liar.expect_no_harm());
        EXPECT_EQ(liar.told[MessageType::damage], 1u);
        EXPECT_EQ(liar.told[refused] > 0, client_heals());
        EXPECT_TRUE(liar.is_named() || !client_heals() || refused == MessageType::read_slot);
        await_forgetting();
      }
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// One server makes the client give slots fresh shares, and the power fails in between: one of the
// honest servers has its fresh shares, the other does not. Then the first server shows nothing.
TEST_P(LyingHealing, APowerCutWhileSharesAreRefreshedLosesNothing) {
  if (cluster_.params().security != Security::malicious) return;  // gets no fresh shares
  const std::vector<SlotAddress> slots = sound_slots();
  for (Party server = 1; server <= cluster_.servers(); ++server) {
    SCOPED_TRACE(fmt::format("server {}", server));
    const Party last_honest = server == cluster_.servers() ? server - 1u : cluster_.servers();
    unsigned withheld = 0;
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from == kClient && to == last_honest && type_of(message) == MessageType::heal_slot) {
        ++withheld;
        return false;
      }
      if (from != server || to != kClient || !is_answer(message)) return true;
      if (type_of(message) != MessageType::damage && type_of(message) != MessageType::prepare)
        return true;
      cluster_.network.deliver(from, to,
                               type_of(message) == MessageType::damage
                                   ? damage(message, slots)
                                   : refusal(message, Errc::failed));
      return false;
    };
    for (BlockId block = 0; withheld == 0; ++block) {
      ASSERT_LT(block, kBlocks);
      ASSERT_NO_FATAL_FAILURE(write(block, newest_[block] + 1));
      cluster_.settle();
    }
    cluster_.kill_client();
    cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
      if (from != server || to != kClient || !is_answer(message) ||
          type_of(message) != MessageType::read_slot)
        return true;
      cluster_.network.deliver(from, to, refusal(message, Errc::corrupt));
      return false;
    };
    ASSERT_OK(cluster_.open_client());
    ASSERT_NO_FATAL_FAILURE(check_contents());
    EXPECT_EQ(cluster_.engine().status().unreadable, 0u);
    cluster_.network.filter = {};
    settle_evictions();
  }
}

// One server does not write what it is sent to heal a slot. Accesses wait, because their answers
// may be computed with old shares and new ones; the servers are not asked meanwhile.
TEST_P(LyingHealing, WhoDoesNotWriteItsShareCausesNoFloodOfQuestions) {
  if (!client_heals()) return;  // the servers send each other their parts
  const std::vector<SlotAddress> slots = sound_slots();
  unsigned refused = 0, asked = 0;
  Liar liar(cluster_, 2, [&](const Bytes& answer) -> std::optional<Bytes> {
    if (type_of(answer) == MessageType::damage && refused == 0) return damage(answer, slots);
    if (type_of(answer) != MessageType::heal_slot || refused == 30) return {};
    ++refused;
    return refusal(answer, Errc::failed);
  });
  cluster_.network.observer = [&](Party from, Party, const Bytes& message) {
    asked += refused > 0 && from == kClient && type_of(message) == MessageType::retrieve;
  };
  ASSERT_NO_FATAL_FAILURE(evict());
  cluster_.network.observer = {};
  EXPECT_EQ(refused, 30u);
  EXPECT_LT(asked, 10 * kBlocks * cluster_.servers());
  ASSERT_NO_FATAL_FAILURE(liar.expect_no_harm());
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// The server reports more damage than an honest one does in one answer, so that the client would be
// busy with it for long.
TEST_P(LyingHealing, MoreDamageThanAServerReportsAtATimeIsNotBelieved) {
  const std::vector<SlotAddress> slots(DamageAnswer::kMost + 500, sound_slots().front());
  Liar liar(cluster_, 2, [&](const Bytes& answer) -> std::optional<Bytes> {
    if (type_of(answer) != MessageType::damage || liar.told[MessageType::damage] == 1) return {};
    return damage(answer, slots);
  });
  unsigned healed = 0;
  cluster_.network.observer = [&](Party from, Party, const Bytes& message) {
    healed += from == kClient &&
              (type_of(message) == MessageType::heal_slot || type_of(message) == MessageType::mend);
  };
  ASSERT_NO_FATAL_FAILURE(evict());
  cluster_.network.observer = {};
  ASSERT_NO_FATAL_FAILURE(liar.expect_no_harm());
  EXPECT_EQ(liar.told[MessageType::damage], 1u);
  EXPECT_EQ(healed, 0u);
  EXPECT_TRUE(liar.is_named());
  ASSERT_NO_FATAL_FAILURE(check_contents());
}

// Nothing but a part of the root buffer has been written. The server calls every slot of the tree
// damaged, including those that do not exist and those that are just being written.
class NewVolume : public testing::TestWithParam<std::tuple<VolumeParams, Party>> {};
INSTANTIATE_TEST_SUITE_P(Volumes, NewVolume,
                         testing::Combine(testing::ValuesIn(test::kVolumes),
                                          testing::Values<Party>(1, 2, 3)));

TEST_P(NewVolume, DamageInSlotsThatDoNotExistEndsNothing) {
  spdlog::set_level(spdlog::level::off);
  const auto& [params, server] = GetParam();
  test::Cluster cluster(params, 12);
  ASSERT_OK(cluster.open_client());
  std::vector<SlotAddress> slots;
  for (std::uint16_t slot = 0; slot < params.root_slots(); ++slot) slots.push_back({kRoot, slot});
  for (std::uint16_t slot = 0; slot < params.bucket_size; ++slot)
    for (const BucketIndex bucket : {kRoot + 1, kRoot + 2}) slots.push_back({bucket, slot});
  Liar liar(cluster, server, [&](const Bytes& answer) -> std::optional<Bytes> {
    if (type_of(answer) != MessageType::damage || liar.told[MessageType::damage] == 2) return {};
    return damage(answer, slots);
  });
  constexpr BlockId kBlocks = 12;
  for (BlockId block = 0; block < kBlocks; ++block)
    ASSERT_OK(cluster.write(block, pattern(block, 1, test::kBlockSize)));
  cluster.run_until([&] { return cluster.engine().status().evictions_due == 0; });
  cluster.settle();
  ASSERT_NO_FATAL_FAILURE(liar.expect_no_harm());
  EXPECT_GT(liar.told[MessageType::damage], 0u);
  EXPECT_TRUE(liar.is_named());
  for (BlockId block = 0; block < kBlocks; ++block) {
    const auto content = cluster.read(block);
    ASSERT_OK(content);
    EXPECT_EQ(*content, pattern(block, 1, test::kBlockSize));
  }
}

}  // namespace
}  // namespace s3oram
