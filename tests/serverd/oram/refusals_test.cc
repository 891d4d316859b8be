// Tests what a server refuses from a stranger, a previous client, another server or a client in
// error.
#include "tests/serverd/oram/hostile_fixture.h"

namespace s3oram {
namespace {

using test::Cluster;
using test::kBlocks;
using test::number_of;
using test::pattern;
using test::request;
using test::Stranger;
using test::type_of;
using test::u16_at;

class Refusals : public test::HostileFixture {};
INSTANTIATE_TEST_SUITE_P(Evictors, Refusals,
                         testing::Combine(testing::Values(Evictor::matrix, Evictor::shuffle),
                                          testing::Values(1)));

TEST_P(Refusals, AnotherVolumeIsRefused) {
  ASSERT_OK(cluster_.close_client());
  VolumeId other = open_.volume;
  other[3] ^= 1;
  {
    Stranger stranger(cluster_);
    for (Party server = 1; server <= 3; ++server) {
      auto answer = stranger.ask(server, CreateRequest{{other, params_, server}});
      ASSERT_FALSE(answer);
      EXPECT_EQ(answer.error().code, Errc::wrong_volume);
      OpenRequest open = open_;
      open.volume = other;
      answer = stranger.ask(server, open);
      ASSERT_FALSE(answer);
      EXPECT_EQ(answer.error().code, Errc::wrong_volume);
      // The volume itself may be made again without harm.
      ASSERT_OK(stranger.ask(server, CreateRequest{{open_.volume, params_, server}}));
      const auto hello = stranger.ask(server, HelloRequest{});
      ASSERT_OK(hello);
      EXPECT_EQ(decode<HelloAnswer>(hello->body())->volume->id, open_.volume);
    }
  }
  ASSERT_OK(cluster_.open_client());
  check_contents();
}

TEST_P(Refusals, AStaleOrNamelessSessionIsRefused) {
  ASSERT_OK(cluster_.close_client());
  {
    Stranger stranger(cluster_);
    Session next{.epoch = open_.next.epoch + 1};
    Session forged = open_.next;
    forged.nonce[0] ^= 1;
    const std::pair<OpenRequest, Errc> opens[] = {
        {{open_.volume, {}, next, 0, {}}, Errc::stale_vault},
        {{open_.volume, {Session{}, forged}, next, 0, {}}, Errc::stale_vault},
        {{open_.volume, {open_.next}, forged, 0, {}}, Errc::bad_request},
        {{open_.volume, {open_.next}, Session{}, 0, {}}, Errc::bad_request},
    };
    for (const auto& [open, code] : opens) {
      const auto answer = stranger.ask(2, open);
      ASSERT_FALSE(answer);
      EXPECT_EQ(answer.error().code, code);
    }
  }
  ASSERT_OK(cluster_.open_client());
  check_contents();
}

TEST_P(Refusals, OfTheOpeningsOfASessionTheLatestCounts) {
  const std::uint64_t now = evictions();
  ASSERT_OK(cluster_.close_client());
  Stranger stranger(cluster_);
  OpenRequest open = open_;
  const auto ask_as = [&](std::uint8_t opening) {
    const std::uint64_t number = random_();
    Bytes question = request(number, LabelsRequest{open.next.epoch, now, kRoot});
    question[6] = opening;
    std::optional<int> code;
    cluster_.network.observer = [&](Party from, Party, const Bytes& message) {
      if (from == 2 && is_answer(message) && number_of(message) == number)
        code = u16_at(message, 4);
    };
    cluster_.inject(kClient, 2, question);
    cluster_.settle();
    cluster_.network.observer = {};
    return code;
  };
  EXPECT_EQ(ask_as(1), 0);
  EXPECT_EQ(ask_as(5), static_cast<int>(Errc::need_open));
  open.opening = 5;
  ASSERT_OK(stranger.ask(2, open));
  EXPECT_EQ(ask_as(5), 0);
  EXPECT_EQ(ask_as(1), static_cast<int>(Errc::need_open));
  open.opening = 1;  // that came late
  ASSERT_OK(stranger.ask(2, open));
  EXPECT_EQ(ask_as(5), 0);
}

TEST(RefusalsOfCreate, AVolumeInUseIsNotReplacedEvenIfItsSessionHasNoNumber) {
  const VolumeParams params = test::safe_volume(Evictor::shuffle, 4);
  Cluster cluster(params, 1);
  Stranger stranger(cluster);
  const auto hello = stranger.ask(1, HelloRequest{});
  ASSERT_OK(hello);
  const VolumeId volume = decode<HelloAnswer>(hello->body())->volume->id;
  // Epoch 0 belongs to a volume that was never opened: no session may have it.
  const auto opened = stranger.ask(1, OpenRequest{volume, {}, Session{}, 0, {}});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::bad_request);
  VolumeId other = volume;
  other[0] ^= 1;
  ASSERT_OK(stranger.ask(1, CreateRequest{{other, params, 1}}));
}

// The tree is refused before it is stored, because it could not even be loaded.
TEST(RefusalsOfCreate, ATreeThatItsMemoryCannotHold) {
  VolumeParams params = test::safe_volume(Evictor::shuffle, 4);
  Cluster cluster(params, 1);
  Stranger stranger(cluster);
  params.first_height = kMaxHeight;
  VolumeId other{};
  other[0] = 1;
  const auto made = stranger.ask(1, CreateRequest{{other, params, 1}});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("of memory"), std::string::npos) << made.error().message;
  const auto hello = stranger.ask(1, HelloRequest{});
  ASSERT_OK(hello);
  EXPECT_NE(decode<HelloAnswer>(hello->body())->volume->id, other) << "the previous session stays";
}

TEST_P(Refusals, LabelsAreForTheClientInItsSessionAndOfTheTreeVersionThatIs) {
  const std::uint64_t epoch = open_.next.epoch, now = evictions();
  const auto refused = [&](Party from, const Bytes& message) {
    refused_[number_of(message)] = fmt::format("type {} of {}", u16_at(message, 2), from);
    cluster_.inject(from, 2, message);
    cluster_.settle();
  };
  VolumeId other = open_.volume;
  other[0] ^= 1;
  const LabelsRequest good{epoch, now, kRoot};
  {
    const std::uint64_t number = random_();
    bool answered = false;
    cluster_.network.observer = [&](Party from, Party, const Bytes& message) {
      if (from != 2 || !is_answer(message) || number_of(message) != number) return;
      answered = true;
      EXPECT_EQ(u16_at(message, 4), 0);
      const auto answer = decode<LabelsAnswer>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      ASSERT_TRUE(answer);
      EXPECT_EQ(answer->slots.size(), params_.root_slots());
    };
    cluster_.inject(kClient, 2, request(number, good));
    cluster_.settle();
    EXPECT_TRUE(answered);
    cluster_.network.observer = {};
  }
  refused(1, request(random_(), good));
  refused(1, request(random_(), SurveyRequest{open_.volume}));
  refused(kClient, request(random_(), SurveyRequest{other}));
  for (const auto& [of, tree_version, bucket] : {std::tuple{epoch - 1, now, kRoot},
                                                 {epoch, now + 1, kRoot},
                                                 {epoch, now - 1, kRoot},
                                                 {epoch, now, BucketIndex{0}},
                                                 {epoch, now, BucketIndex{1} << 40},
                                                 {epoch, now, bucket_count(cluster_height_) + 1}})
    refused(kClient, request(random_(), LabelsRequest{of, tree_version, bucket}));
  EXPECT_TRUE(refused_.empty()) << "no answer: " << refused_.begin()->second;
  check_contents();
}

TEST_P(Refusals, ProbesAreOfAFewBytesAndBringOthersNone) {
  const auto refused = [&](Party from, const Bytes& message) {
    refused_[number_of(message)] = fmt::format("a probe of {}", from);
    cluster_.inject(from, 2, message);
    cluster_.settle();
  };
  std::map<std::uint64_t, std::size_t> answered;  // bytes, by number
  cluster_.network.observer = [&](Party from, Party, const Bytes& message) {
    if (from == 2 && is_answer(message) && u16_at(message, 4) == 0)
      answered[number_of(message)] = message.size();
  };
  const Bytes padding(1000);
  cluster_.inject(kClient, 2, request(1, ProbeRequest{ProbeRequest::kMost, padding}));
  cluster_.inject(3, 2, request(2, ProbeRequest{0, padding}));
  cluster_.settle();
  EXPECT_EQ(answered[1], Rpc::kHeaderSize + 4 + ProbeRequest::kMost);
  EXPECT_EQ(answered[2], Rpc::kHeaderSize + 4);
  refused(kClient, request(random_(), ProbeRequest{ProbeRequest::kMost + 1, {}}));
  refused(kClient, request(random_(), ProbeRequest{~std::uint32_t{0}, {}}));
  refused(3, request(random_(), ProbeRequest{1, {}}));
  refused(3, request(random_(), MeasureRequest{500, {1}}));
  EXPECT_TRUE(refused_.empty()) << "no answer: " << refused_.begin()->second;
  cluster_.network.observer = {};
  check_contents();
}

TEST_P(Refusals, AServerSendsOthersABoundedNumberOfProbes) {
  std::map<Party, std::size_t> sent;
  std::optional<int> code;
  const std::uint64_t number = random_();
  cluster_.network.observer = [&](Party from, Party to, const Bytes& message) {
    if (from != 2) return;
    if (is_question(message) && type_of(message) == MessageType::probe) sent[to] += message.size();
    if (is_answer(message) && number_of(message) == number) code = u16_at(message, 4);
  };
  cluster_.inject(kClient, 2, request(number, MeasureRequest{65535, {0, 1, 1, 2, 3, 99}}));
  cluster_.run_until([&] { return code.has_value(); });
  EXPECT_EQ(code, 0);
  EXPECT_GT(sent[1], 0u);
  EXPECT_GT(sent[3], 0u);
  EXPECT_FALSE(sent.contains(kClient) || sent.contains(2));
  EXPECT_LE(sent[1] + sent[3], MeasureRequest::kMostBytes + (1 << 20));
  cluster_.network.observer = {};
  check_contents();
}

// A peer whose subshares are too short, empty, or too large spoils one attempt, and nothing else.
TEST_P(Refusals, AWrongSubshareCostsOneAttempt) {
  int spoilt = 0;
  const Bytes large(1 << 20);
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    // Server 2 gets subshares from server 1 with either evictor.
    if (from == 1 && to == 2 && is_question(message) && type_of(message) == MessageType::subshare &&
        spoilt < 3) {
      ++spoilt;
      auto subshare = *decode<SubshareRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
      const ByteSpan share = subshare.share;
      subshare.share = spoilt == 1   ? share.first(0)
                       : spoilt == 2 ? share.first(share.size() - 1)
                                     : ByteSpan(large);
      const_cast<Bytes&>(message) = request(number_of(message), subshare);
    }
    return true;
  };
  const auto evictions = cluster_.engine().status().evictions;
  ++generation_;
  for (BlockId block = 0; block < kBlocks; ++block)
    ASSERT_OK(cluster_.write(block, pattern(block, generation_, params_.block_size)));
  EXPECT_EQ(spoilt, 3);
  EXPECT_GE(cluster_.engine().status().evictions, evictions + 5);
  check_contents();
}

// A peer's flood of subshares for evictions that never come is bounded, and does not keep out those
// of the other peer.
TEST_P(Refusals, AFloodOfSubsharesIsBounded) {
  std::size_t taken = 0, turned_away = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from == 1 && to == 2 && is_answer(message) && number_of(message) < 20000)
      ++(u16_at(message, 4) == 0 ? taken : turned_away);
    return true;
  };
  for (std::uint64_t number = 0; number < 20000; ++number) {
    EvictionId id{.eviction = number % 2 ? ~std::uint64_t{0} : tree_version() + 1000};
    for (auto& byte : id.attempt) byte = static_cast<std::uint8_t>(random_());
    cluster_.inject(2, 1, request(number, SubshareRequest{open_.next.epoch, id, 0, 0, {}}));
    if (number % 500 == 0) cluster_.settle();
  }
  cluster_.settle();
  EXPECT_EQ(taken + turned_away, 20000u);
  EXPECT_LE(taken, 4096u);
  Bytes other = request(5, SubshareRequest{open_.next.epoch, {~std::uint64_t{0}, {}}, 0, 0, {}});
  std::optional<int> code;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from == 1 && to == 3 && is_answer(message)) code = u16_at(message, 4);
    return true;
  };
  cluster_.inject(3, 1, other);
  cluster_.run_until([&] { return code.has_value(); });
  EXPECT_EQ(code, 0);
  cluster_.network.filter = {};
  check_contents();
}

// A flood of long subshares does not fill the memory.
TEST_P(Refusals, AFloodOfLongSubsharesIsBoundedByTheirSize) {
  const auto path = PathSlots::evicted(params_, tree_version(), cluster_height_);
  const Bytes share(path.count() * params_.slot_size() / 4);
  std::size_t taken = 0, turned_away = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from == 1 && to == 2 && is_answer(message) && number_of(message) < 50)
      ++(u16_at(message, 4) == 0 ? taken : turned_away);
    return true;
  };
  for (std::uint64_t number = 0; number < 50; ++number) {
    EvictionId id{.eviction = tree_version() + 1000};
    for (auto& byte : id.attempt) byte = static_cast<std::uint8_t>(random_());
    cluster_.inject(2, 1, request(number, SubshareRequest{open_.next.epoch, id, 0, 0, share}));
  }
  cluster_.settle();
  EXPECT_EQ(taken + turned_away, 50u);
  EXPECT_GT(taken, 4u) << "less than those of one step";
  EXPECT_LE(taken, 12u);
  cluster_.network.filter = {};
  check_contents();
}

// A server never computes with a root slot that it does not have.
TEST_P(Refusals, AnEvictionOfUnwrittenSlotsIsRefused) {
  ASSERT_OK(cluster_.close_client());
  Cluster fresh(params_, 1);
  OpenRequest open = open_;
  Stranger stranger(fresh);
  const auto hello = stranger.ask(1, HelloRequest{});
  ASSERT_OK(hello);
  open.volume = decode<HelloAnswer>(hello->body())->volume->id;
  open.known = {Session{}};
  ASSERT_OK(stranger.ask(1, open));
  // Access numbers start at 1.
  const Bytes zeros(params_.slot_size());
  auto answer = stranger.ask(1, WriteRootRequest{open.next.epoch, 0, 0, zeros, {}, kClient});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Errc::bad_request);
  for (std::uint8_t height = 1; height < 12; ++height) {
    const Bytes orders = orders_of(1, {}, height);
    answer = stranger.ask(1, PrepareRequest{open.next.epoch, {}, height, height, orders});
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, height == 1 ? Errc::corrupt : Errc::bad_request);
  }
}

// Orders that do not fit the server or the path are refused, and begin no attempt.
TEST_P(Refusals, OrdersOfAnotherShapeAreRefused) {
  ASSERT_OK(cluster_.close_client());
  Stranger stranger(cluster_);
  for (Party server = 1; server <= 3; ++server) {
    const auto opened = stranger.ask(server, open_);
    ASSERT_OK(opened);
    const std::uint64_t now = decode<OpenAnswer>(opened->body())->tree_version;
    const EvictionId id{now, {}};
    const auto height = static_cast<std::uint8_t>(cluster_height_);
    const Bytes right = orders_of(server, id, height);
    std::vector<Bytes> wrong{{}, Bytes(right.begin(), right.end() - 1)};
    // Server 1 of a shuffle gets only seeds, whatever the path's length.
    if (params_.evictor == Evictor::matrix || server != 1)
      wrong.push_back(orders_of(server, id, height + 1u));
    wrong.push_back(right);
    wrong.back().push_back(0);
    if (params_.evictor == Evictor::shuffle) {
      wrong.push_back(orders_of(server % 3 + 1, id, height));
      if (server != 1) {
        auto orders = *decode_shuffle_orders(right);
        orders.second[0] = orders.second[1];
        wrong.push_back(packed(orders));
        orders.second[0] = 0xffff;
        wrong.push_back(packed(orders));
        for (const Party first_server : {Party{0}, Party{2}, Party{4}}) {
          auto others = *decode_shuffle_orders(right);
          others.first_server = first_server;
          wrong.push_back(packed(others));
        }
        auto all_keys = *decode_shuffle_orders(right);
        all_keys.check_1 = all_keys.check_2 = all_keys.check_3 = Seed{};
        wrong.push_back(packed(all_keys));
      }
    }
    for (const Bytes& orders : wrong) {
      const auto answer =
          stranger.ask(server, PrepareRequest{open_.next.epoch, id, height, height, orders});
      ASSERT_FALSE(answer) << orders.size();
      EXPECT_EQ(answer.error().code, Errc::bad_request);
    }
  }
}

}  // namespace
}  // namespace s3oram
