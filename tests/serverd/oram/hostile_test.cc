// Servers get messages that no honest party would send: mutations of real messages, and those of a
// client that has gone mad.

#include "tests/serverd/oram/hostile_fixture.h"

namespace s3oram {
namespace {

using test::kBlocks;
using test::number_of;
using test::pattern;
using test::request;
using test::Stranger;
using test::type_of;
using test::u16_at;

constexpr Party kNobody = 77;
// All known types, and some that do not exist.
constexpr unsigned kTypes = static_cast<unsigned>(MessageType::read_log) + 2;

class Hostile : public test::HostileFixture {
 protected:
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
        message[2] = static_cast<std::uint8_t>(random_() % kTypes);
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
        for (auto installs = 1 + random_() % 8; installs > 0; --installs) {
          const std::size_t range =
              random_() % 2 ? message.size() : std::min<std::size_t>(64, message.size());
          message[random_() % range] ^= static_cast<std::uint8_t>(1 << random_() % 8);
        }
    }
    if (sample.from == sample.to) sample.from = kClient;
    if (message.size() >= Rpc::kHeaderSize) {
      const std::uint64_t number = random_();  // never the number of a call under way
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
    const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
    const MessageType type = type_of(message);
    const bool of_peers = type == MessageType::subshare || type == MessageType::masked_share ||
                          type == MessageType::relay;
    if (type == MessageType::probe || type == MessageType::lines) return Due::no_harm;
    if (of_peers != (sample.from != kClient)) return Due::refusal;
    const auto in_session = [&]<class T>(std::optional<T> read, Due otherwise) {
      return read && read->epoch == open_.next.epoch ? otherwise : Due::refusal;
    };
    switch (type) {
      case MessageType::hello:
      case MessageType::traffic:
      case MessageType::room:
      case MessageType::disk:
      case MessageType::probe:
      case MessageType::measure:
      case MessageType::lines:
        return Due::no_harm;
      case MessageType::survey: {
        const auto survey = decode<SurveyRequest>(body);
        return survey && survey->volume == open_.volume ? Due::no_harm : Due::refusal;
      }
      case MessageType::reenrol: {
        const auto reenrol = decode<ReenrolRequest>(body);
        return reenrol && reenrol->volume.id == open_.volume ? Due::no_harm : Due::refusal;
      }
      case MessageType::fits:
        return Due::no_harm;
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
        // A retrieval with a sum makes the server drop older ones.
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
      case MessageType::check:
        return in_session(decode<CheckRequest>(body), Due::no_harm);
      case MessageType::mark_prepared:
        return in_session(decode<MarkPreparedRequest>(body), Due::no_harm);
      case MessageType::mark_buckets:
        return in_session(decode<MarkBucketsRequest>(body), Due::no_harm);
      case MessageType::disown:
        return in_session(decode<DisownRequest>(body), Due::obedience);
      case MessageType::digests:
        return in_session(decode<DigestsRequest>(body), Due::no_harm);
      case MessageType::layout:
        return in_session(decode<LayoutRequest>(body), Due::no_harm);
      case MessageType::contribute:
        return in_session(decode<ContributeRequest>(body), Due::obedience);
      case MessageType::mend:
        return in_session(decode<MendRequest>(body), Due::obedience);
      case MessageType::withdraw:
        return in_session(decode<WithdrawRequest>(body), Due::obedience);
      case MessageType::masked_share:  // a lie, if a retrieval waits for it
        return in_session(decode<MaskedShareRequest>(body), Due::obedience);
      case MessageType::relay:
        return in_session(decode<RelayRequest>(body), Due::obedience);
      case MessageType::subshare:  // of evictions that are over, or that will never begin
        return in_session(decode<SubshareRequest>(body), Due::no_harm);
      case MessageType::rejoin:  // of a mirror
        return decode<RejoinRequest>(body) ? Due::obedience : Due::refusal;
      case MessageType::peer:  // the simulator's servers have no addresses
        return Due::refusal;
      case MessageType::heads:  // of a mirror; changes nothing
      case MessageType::certify:
        return Due::no_harm;
      case MessageType::store_rows:  // of a ring
      case MessageType::fetch_rows:
      case MessageType::read_log:
        return Due::refusal;
    }
    return Due::refusal;
  }
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
    return ByteSpan(junk).first(random_() % 3 ? likely : random_() % junk.size());
  };
  const auto likely_orders = [&](Party server, const EvictionId& id, unsigned height) {
    orders = orders_of(server, id, height);
    if (random_() % 4 == 0) orders.resize(random_() % (orders.size() + 1));
    return ByteSpan(orders);
  };
  const std::uint64_t now = tree_version();
  std::vector<EvictionId> ids(4);
  for (auto& id : ids) id.attempt.fill(static_cast<std::uint8_t>(random_()));
  for (int round = 0; round < 3000; ++round) {
    const auto server = static_cast<Party>(1 + random_() % 3);
    const auto height =
        static_cast<std::uint8_t>(random_() % 4 ? cluster_height_ + random_() % 2 : random_());
    const WriteNumber write_number =
        random_() % 4 ? first_write_number(now, 4) + random_() % 13 : random_();
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
    const auto place = [&] {
      return SlotAddress{random_() % 8 ? random_() % 12 : random_(),
                         static_cast<std::uint16_t>(random_() % 40)};
    };
    const auto helpers = [&] {
      Bytes some_servers;
      for (Party each = 0; each < 5; ++each)
        if (random_() % 3 == 0) some_servers.push_back(each);
      return some_servers;
    };
    switch (random_() % 16) {
      case 0: {
        RetrieveRequest retrieval{
            .epoch = epoch,
            .tree_version = near(now),
            .height = height,
            .written = write_number,
            .write_number = random_(),
            .leaf = random_(),
            .query = some(write_number % 9 + params_.stash_slots + height % 31 * z),
            .query_seed = seed(),
            .sum = {}};
        if (random_() % 2)
          retrieval.sum = SumOrder{.request_id = random_() % 50,
                                   .oldest = random_() % 20,
                                   .aggregator = static_cast<Party>(random_() % 5),
                                   .mask = seed()};
        message = request(random_(), retrieval);
        break;
      }
      case 1: {
        WriteRootRequest write{.epoch = epoch,
                               .write_number = write_number,
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
                        request(random_(), RelayRequest{epoch, write_number, random_() % 4,
                                                        some(params_.slot_size())}));
        break;
      case 10:
        cluster_.inject(peer(), server,
                        request(random_(), MaskedShareRequest{epoch, random_() % 50,
                                                              some(params_.slot_size())}));
        break;
      case 11:
        message = request(random_(), WithdrawRequest{epoch, random_() % 50});
        break;
      case 12:
        message = request(random_(),
                          ContributeRequest{.epoch = epoch,
                                            .tree_version = near(now),
                                            .request_id = random_() % 50,
                                            .oldest = random_() % 20,
                                            .at = place(),
                                            .to = static_cast<Party>(random_() % 5),
                                            .helpers = helpers(),
                                            .masks = std::vector<Seed>(random_() % 3 ? 1 : 2)});
        break;
      case 13:
        message = request(random_(), MendRequest{.epoch = epoch,
                                                 .tree_version = near(now),
                                                 .request_id = random_() % 50,
                                                 .oldest = random_() % 20,
                                                 .at = place(),
                                                 .access = random_() % 3,
                                                 .helpers = helpers()});
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
  // No effect of the messages outlives their session.
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

INSTANTIATE_TEST_SUITE_P(Seeds, Hostile,
                         testing::Combine(testing::Values(Evictor::matrix, Evictor::shuffle),
                                          testing::Range(1, 3)));

}  // namespace
}  // namespace s3oram
