// Servers that are sent what no honest party would send.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "oramcore/client/eviction_orders.h"
#include "tests/harness/volumes.h"
#include "tests/serverd/strangers.h"

namespace s3oram {
namespace {

using test::Cluster;
using test::number_of;
using test::pattern;
using test::request;
using test::Stranger;
using test::type_of;
using test::u16_at;

constexpr BlockId kBlocks = 30;
constexpr Party kNobody = 77;

class Hostile : public testing::TestWithParam<std::tuple<Evictor, int>> {
 protected:
  static std::uint64_t seed() { return static_cast<std::uint64_t>(std::get<1>(GetParam())); }

  struct Sample {
    Party from, to;
    Bytes message;
  };

  // A volume with some blocks, and a few messages of every type from the making of it.
  Hostile()
      : params_(test::safe_volume(std::get<0>(GetParam()), 4)),
        random_(seed()),
        cluster_(params_, seed()) {
    cluster_.network.filter = [this](Party from, Party to, const Bytes& message) {
      return seen(from, to, message);
    };
    Cluster::require(cluster_.open_client());
    for (generation_ = 1; generation_ <= 2; ++generation_)
      for (BlockId block = 0; block < kBlocks; ++block)
        Cluster::require(cluster_.write(block, pattern(block, generation_, params_.block_size)));
    --generation_;
    cluster_.settle();
    cluster_height_ = cluster_.engine().status().height;
    for (Party server = 1; server <= 3; ++server) {
      samples_.push_back({kClient, server, request(1, HelloRequest{})});
      samples_.push_back(
          {kClient, server, request(1, CreateRequest{{open_.volume, params_, server}})});
      samples_.push_back({kClient, server, request(1, SurveyRequest{open_.volume})});
      samples_.push_back(
          {kClient, server, request(1, LabelsRequest{open_.next.epoch, evictions(), kRoot})});
    }
    recording_ = false;
  }

  bool seen(Party from, Party to, const Bytes& message) {
    if (message.size() < Rpc::kHeaderSize) return true;
    if (recording_ && is_question(message)) {
      if (type_of(message) == MessageType::open) {
        open_message_ = message;
        open_ = *decode<OpenRequest>(View(open_message_).subspan(Rpc::kHeaderSize));
      }
      if (++recorded_[{type_of(message), from, to}] <= 5) samples_.push_back({from, to, message});
    }
    if (is_answer(message)) {
      const auto asked = refused_.find(number_of(message));
      if (asked != refused_.end()) {
        EXPECT_NE(u16_at(message, 4), 0) << "accepted: " << asked->second;
        refused_.erase(asked);
      }
    }
    return true;
  }

  Sample mutated() {
    Sample sample = samples_[random_() % samples_.size()];
    Bytes& message = sample.message;
    switch (random_() % 8) {
      case 0:
        message.resize(random_() % message.size());
        break;
      case 1:
        message.resize(message.size() + 1 + random_() % 50);
        break;
      case 2:
        message[2] = static_cast<std::uint8_t>(random_() % 22);
        break;
      case 3:
        for (auto& byte : message) byte = static_cast<std::uint8_t>(random_());
        break;
      case 4:  // the beginning of the body, where the fields are
        for (std::size_t i = Rpc::kHeaderSize; i < std::min<std::size_t>(message.size(), 60); ++i)
          if (random_() % 4 == 0) message[i] = static_cast<std::uint8_t>(random_());
        break;
      case 5:
        sample.from = static_cast<Party>(random_() % 6);
        break;
      case 6:
        sample.from = kNobody;
        [[fallthrough]];
      default:
        for (auto flips = 1 + random_() % 8; flips > 0; --flips) {
          const std::size_t range =
              random_() % 2 ? message.size() : std::min<std::size_t>(64, message.size());
          message[random_() % range] ^= static_cast<std::uint8_t>(1 << random_() % 8);
        }
    }
    if (sample.from == sample.to) sample.from = kClient;
    if (message.size() >= Rpc::kHeaderSize) {
      const std::uint64_t number = random_();  // never that of a call under way
      std::memcpy(message.data() + 8, &number, sizeof number);
    }
    return sample;
  }

  enum class Due { refusal, no_harm, obedience };
  Due due(const Sample& sample) const {
    const Bytes& message = sample.message;
    if (message.size() < Rpc::kHeaderSize || !is_question(message) ||
        message[1] != Rpc::kWireVersion)
      return Due::no_harm;
    const View body = View(message).subspan(Rpc::kHeaderSize);
    const MessageType type = type_of(message);
    const bool of_peers =
        type == MessageType::subshare || type == MessageType::addend || type == MessageType::relay;
    if (of_peers != (sample.from != kClient)) return Due::refusal;
    const auto in_session = [&]<class T>(std::optional<T> read, Due otherwise) {
      return read && read->epoch == open_.next.epoch ? otherwise : Due::refusal;
    };
    switch (type) {
      case MessageType::hello:
      case MessageType::traffic:
        return Due::no_harm;
      case MessageType::survey: {
        const auto survey = decode<SurveyRequest>(body);
        return survey && survey->volume == open_.volume ? Due::no_harm : Due::refusal;
      }
      case MessageType::create: {
        const auto create = decode<CreateRequest>(body);
        return create && create->volume.id == open_.volume ? Due::no_harm : Due::refusal;
      }
      case MessageType::open: {
        const auto open = decode<OpenRequest>(body);
        if (!open || open->volume != open_.volume) return Due::refusal;
        if (open->next == open_.next) return Due::no_harm;
        const bool known = std::count(open->known.begin(), open->known.end(), open_.next) > 0;
        return known && open->next.epoch > open_.next.epoch ? Due::obedience : Due::refusal;
      }
      case MessageType::retrieve: {
        const auto retrieve = decode<RetrieveRequest>(body);
        // With a sum to be made it says which ones are over.
        return in_session(retrieve, retrieve && retrieve->sum ? Due::obedience : Due::no_harm);
      }
      case MessageType::write_root:
        return in_session(decode<WriteRootRequest>(body), Due::obedience);
      case MessageType::prepare:
        return in_session(decode<PrepareRequest>(body), Due::obedience);
      case MessageType::commit:
      case MessageType::discard:
      case MessageType::release:
        return in_session(decode<CommitRequest>(body), Due::obedience);
      case MessageType::reserve:
        return in_session(decode<ReserveRequest>(body), Due::obedience);
      case MessageType::damage:
        return in_session(decode<DamageRequest>(body), Due::no_harm);
      case MessageType::labels:
        return in_session(decode<LabelsRequest>(body), Due::no_harm);
      case MessageType::read_slot:
        return in_session(decode<ReadSlotRequest>(body), Due::no_harm);
      case MessageType::heal_slot:
        return in_session(decode<HealSlotRequest>(body), Due::obedience);
      case MessageType::withdraw:
        return in_session(decode<WithdrawRequest>(body), Due::obedience);
      case MessageType::addend:  // a lie, if a retrieval waits for it
        return in_session(decode<AddendRequest>(body), Due::obedience);
      case MessageType::relay:
        return in_session(decode<RelayRequest>(body), Due::obedience);
      case MessageType::subshare:  // of evictions that are over, or that never will be
        return in_session(decode<SubshareRequest>(body), Due::no_harm);
    }
    return Due::refusal;
  }

  void send(const Sample& sample) { cluster_.inject(sample.from, sample.to, sample.message); }
  void check_contents() {
    for (BlockId block = 0; block < kBlocks; ++block) {
      auto got = cluster_.read(block);
      ASSERT_TRUE(got) << got.error().message;
      ASSERT_EQ(*got, pattern(block, generation_, params_.block_size)) << "block " << block;
    }
  }
  void restart_servers() {
    for (Party server = 1; server <= 3; ++server) {
      cluster_.stop_server(server);
      cluster_.start_server(server);
    }
  }
  static Bytes packed(const ShuffleOrders& orders) {
    Writer writer;
    const_cast<ShuffleOrders&>(orders).fields(writer);
    return writer.take();
  }
  /// Orders that the server can carry out.
  Bytes orders_of(Party server, const EvictionId& id, unsigned height) {
    if (params_.evictor == Evictor::matrix)
      return Bytes((height + 1) * 2 * params_.bucket_size * params_.bucket_size);
    const std::size_t slots = PathSlots::evicted(params_, id.eviction, height).count();
    Permutation to(slots);
    for (std::uint32_t i = 0; i < slots; ++i) to[i] = i;
    EvictionPlan plan{.movement = to, .placements = {}, .overflow = {}};
    Prg prg(Seed{}, as_view("orders"));
    return eviction_orders(params_, plan, prg)[server - 1];
  }
  std::uint64_t evictions() { return cluster_.engine().status().evictions; }
  std::uint64_t view() {
    for (auto sample = samples_.rbegin(); sample != samples_.rend(); ++sample)
      if (type_of(sample->message) == MessageType::commit)
        return decode<CommitRequest>(View(sample->message).subspan(Rpc::kHeaderSize))->id.eviction;
    return 0;
  }

  const VolumeParams params_;
  std::mt19937_64 random_;
  std::uint64_t generation_ = 0;
  bool recording_ = true;
  std::map<std::tuple<MessageType, Party, Party>, int> recorded_;
  std::vector<Sample> samples_;
  Bytes open_message_;
  OpenRequest open_;
  unsigned cluster_height_ = 0;
  std::map<std::uint64_t, std::string> refused_;  // by number: what must not be accepted
  Cluster cluster_;
};

TEST_P(Hostile, WhatMustBeRefusedChangesNothing) {
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    const Sample sample = mutated();
    const Due what = due(sample);
    if (what == Due::obedience) continue;
    if (what == Due::refusal) {
      ++refused;
      refused_[number_of(sample.message)] =
          fmt::format("type {}, {} bytes, {} to {}", u16_at(sample.message, 2),
                      sample.message.size(), sample.from, sample.to);
    }
    send(sample);
    if (round % 200 != 199) continue;
    cluster_.settle();
    EXPECT_TRUE(refused_.empty()) << "no answer: " << refused_.begin()->second;
    const BlockId block = random_() % kBlocks;
    ASSERT_OK(cluster_.write(block, pattern(block, generation_, params_.block_size)));
  }
  EXPECT_GT(refused, 1500);
  check_contents();
  restart_servers();
  check_contents();
  ASSERT_OK(cluster_.close_client());
  ASSERT_OK(cluster_.open_client());
  check_contents();
}

// The client's party may destroy the volume, but not the server.
TEST_P(Hostile, AMadClientLeavesServersThatServe) {
  ASSERT_OK(cluster_.close_client());
  const std::size_t z = params_.bucket_size;
  const std::uint64_t epoch = open_.next.epoch;
  Bytes junk(z * std::max<std::size_t>(40 * z, params_.slot_size())), orders;
  for (auto& byte : junk) byte = static_cast<std::uint8_t>(random_());
  const auto near = [&](std::uint64_t middle) { return middle + random_() % 5 - 2; };
  const auto some = [&](std::size_t likely) {
    return View(junk).first(random_() % 3 ? likely : random_() % junk.size());
  };
  const auto likely_orders = [&](Party server, const EvictionId& id, unsigned height) {
    orders = orders_of(server, id, height);
    if (random_() % 4 == 0) orders.resize(random_() % (orders.size() + 1));
    return View(orders);
  };
  const std::uint64_t now = view();
  std::vector<EvictionId> ids(4);
  for (auto& id : ids) id.attempt.fill(static_cast<std::uint8_t>(random_()));
  for (int round = 0; round < 3000; ++round) {
    const auto server = static_cast<Party>(1 + random_() % 3);
    const auto height =
        static_cast<std::uint8_t>(random_() % 4 ? cluster_height_ + random_() % 2 : random_());
    const Turn turn = random_() % 4 ? first_turn(now, 4) + random_() % 13 : random_();
    EvictionId id = ids[random_() % ids.size()];
    id.eviction = near(now);
    Bytes message;
    const auto seed = [&] {
      std::optional<Seed> some_seed;
      if (random_() % 2) some_seed.emplace().fill(static_cast<std::uint8_t>(random_()));
      return some_seed;
    };
    const auto peer = [&] {
      const auto from = static_cast<Party>(random_() % 5);
      return from == server ? kNobody : from;
    };
    switch (random_() % 13) {
      case 0: {
        RetrieveRequest retrieval{.epoch = epoch,
                                  .view = near(now),
                                  .height = height,
                                  .written = turn,
                                  .turn = random_(),
                                  .leaf = random_(),
                                  .query = some(turn % 9 + params_.stash_slots + height % 31 * z),
                                  .query_seed = seed(),
                                  .sum = {}};
        if (random_() % 2)
          retrieval.sum = SumOrder{.ticket = random_() % 50,
                                   .oldest = random_() % 20,
                                   .adder = static_cast<Party>(random_() % 5),
                                   .mask = seed()};
        message = request(random_(), retrieval);
        break;
      }
      case 1: {
        WriteRootRequest write{.epoch = epoch,
                               .turn = turn,
                               .access = random_() % 4,
                               .share = some(params_.slot_size()),
                               .parts = {},
                               .relay_to = static_cast<Party>(random_() % 3 ? 0 : random_() % 5)};
        for (auto parts = random_() % 4; parts > 0; --parts)
          write.parts.push_back({.number = static_cast<std::uint8_t>(random_() % 5),
                                 .seed = seed(),
                                 .content = some(params_.slot_size()),
                                 .digest = seed()});
        message = request(random_(), write);
        break;
      }
      case 9:
        cluster_.inject(peer(), server,
                        request(random_(), RelayRequest{epoch, turn, random_() % 4,
                                                        some(params_.slot_size())}));
        break;
      case 10:
        cluster_.inject(
            peer(), server,
            request(random_(), AddendRequest{epoch, random_() % 50, some(params_.slot_size())}));
        break;
      case 11:
        message = request(random_(), WithdrawRequest{epoch, random_() % 50});
        break;
      case 2:
      case 3:
        message =
            request(random_(), PrepareRequest{epoch, id, height,
                                              static_cast<std::uint8_t>(height + random_() % 3),
                                              likely_orders(server, id, height % 16)});
        break;
      case 4:
        message = request(random_(), CommitRequest{epoch, id});
        break;
      case 5:
        message = request(random_(), DiscardRequest{epoch, id});
        break;
      case 6:
        message = request(random_(), ReleaseRequest{epoch, id});
        break;
      case 7: {
        cluster_.inject(
            peer(), server,
            request(random_(), SubshareRequest{epoch, id, static_cast<std::uint16_t>(random_() % 9),
                                               static_cast<std::uint32_t>(random_() % 3),
                                               some(z * params_.slot_size())}));
        break;
      }
      default: {
        const Sample sample = mutated();
        if (type_of(sample.message) != MessageType::open || due(sample) == Due::no_harm)
          send(sample);
      }
    }
    if (!message.empty()) cluster_.inject(kClient, server, message);
    if (round % 20 == 19) cluster_.settle();
  }
  // Nothing of it lasts longer than its session.
  for (int again = 0; again < 2; ++again, restart_servers()) {
    open_.known = {open_.next};
    ++open_.next.epoch;
    Stranger stranger(cluster_);
    for (Party server = 1; server <= 3; ++server) {
      ASSERT_OK(stranger.ask(server, HelloRequest{}));
      ASSERT_OK(stranger.ask(server, open_));
    }
  }
}

constexpr Evictor kBoth[] = {Evictor::matrix, Evictor::shuffle};
INSTANTIATE_TEST_SUITE_P(Seeds, Hostile,
                         testing::Combine(testing::ValuesIn(kBoth), testing::Range(1, 3)));

class HostileOnce : public Hostile {};
INSTANTIATE_TEST_SUITE_P(Seed, HostileOnce,
                         testing::Combine(testing::ValuesIn(kBoth), testing::Values(1)));

TEST_P(HostileOnce, AnotherVolumeIsRefused) {
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
      // The volume itself may be made again, without harm.
      ASSERT_OK(stranger.ask(server, CreateRequest{{open_.volume, params_, server}}));
      const auto hello = stranger.ask(server, HelloRequest{});
      ASSERT_OK(hello);
      EXPECT_EQ(decode<HelloAnswer>(hello->body())->volume->id, open_.volume);
    }
  }
  ASSERT_OK(cluster_.open_client());
  check_contents();
}

TEST_P(HostileOnce, AStaleOrNamelessSessionIsRefused) {
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

TEST(HostileCreate, AVolumeInUseIsNotReplacedEvenIfItsSessionHasNoNumber) {
  const VolumeParams params = test::safe_volume(Evictor::shuffle, 4);
  Cluster cluster(params, 1);
  Stranger stranger(cluster);
  const auto hello = stranger.ask(1, HelloRequest{});
  ASSERT_OK(hello);
  const VolumeId volume = decode<HelloAnswer>(hello->body())->volume->id;
  // Number 0 is that of a volume never opened: no session may have it.
  const auto opened = stranger.ask(1, OpenRequest{volume, {}, Session{}, 0, {}});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::bad_request);
  VolumeId other = volume;
  other[0] ^= 1;
  ASSERT_OK(stranger.ask(1, CreateRequest{{other, params, 1}}));
}

TEST_P(HostileOnce, LabelsAreForTheClientInItsSessionAndOfTheViewThatIs) {
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
      const auto answer = decode<LabelsAnswer>(View(message).subspan(Rpc::kHeaderSize));
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
  for (const auto& [of, view, bucket] : {std::tuple{epoch - 1, now, kRoot},
                                         {epoch, now + 1, kRoot},
                                         {epoch, now - 1, kRoot},
                                         {epoch, now, BucketIndex{0}},
                                         {epoch, now, BucketIndex{1} << 40},
                                         {epoch, now, bucket_count(cluster_height_) + 1}})
    refused(kClient, request(random_(), LabelsRequest{of, view, bucket}));
  EXPECT_TRUE(refused_.empty()) << "no answer: " << refused_.begin()->second;
  check_contents();
}

// A peer whose subshares are of a wrong size, or empty, spoils an attempt and nothing more.
TEST_P(HostileOnce, AWrongSubshareCostsOneAttempt) {
  int spoilt = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    // Who gets them with either evictor.
    if (from == 1 && to == 2 && is_question(message) && type_of(message) == MessageType::subshare &&
        spoilt < 3) {
      ++spoilt;
      auto subshare = *decode<SubshareRequest>(View(message).subspan(Rpc::kHeaderSize));
      subshare.share = subshare.share.first(spoilt == 1 ? 0 : subshare.share.size() - 1);
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

// One peer's flood of subshares for evictions that never come is bounded, and does not keep the
// other peer's out.
TEST_P(HostileOnce, AFloodOfSubsharesIsBounded) {
  std::size_t taken = 0, turned_away = 0;
  cluster_.network.filter = [&](Party from, Party to, const Bytes& message) {
    if (from == 1 && to == 2 && is_answer(message) && number_of(message) < 20000)
      ++(u16_at(message, 4) == 0 ? taken : turned_away);
    return true;
  };
  for (std::uint64_t number = 0; number < 20000; ++number) {
    EvictionId id{.eviction = number % 2 ? ~std::uint64_t{0} : view() + 1000};
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

// A server never computes with a root slot that it does not have.
TEST_P(HostileOnce, AnEvictionOfUnwrittenSlotsIsRefused) {
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

// Orders that do not fit the server or the path are refused, and no attempt is begun by them.
TEST_P(HostileOnce, OrdersOfAnotherShapeAreRefused) {
  ASSERT_OK(cluster_.close_client());
  Stranger stranger(cluster_);
  for (Party server = 1; server <= 3; ++server) {
    const auto opened = stranger.ask(server, open_);
    ASSERT_OK(opened);
    const std::uint64_t now = decode<OpenAnswer>(opened->body())->view;
    const EvictionId id{now, {}};
    const auto height = static_cast<std::uint8_t>(cluster_height_);
    const Bytes right = orders_of(server, id, height);
    std::vector<Bytes> wrong{{}, Bytes(right.begin(), right.end() - 1)};
    // Server 1 of a shuffle gets seeds alone, whatever the path's length.
    if (params_.evictor == Evictor::matrix || server != 1)
      wrong.push_back(orders_of(server, id, height + 1u));
    wrong.push_back(right);
    wrong.back().push_back(0);
    if (params_.evictor == Evictor::shuffle) {
      wrong.push_back(orders_of(server % 3 + 1, id, height));
      if (server != 1) {
        auto orders = *decode<ShuffleOrders>(right);
        orders.second[0] = orders.second[1];
        wrong.push_back(packed(orders));
        orders.second[0] = 0xffff;
        wrong.push_back(packed(orders));
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
