// A volume in use, with some blocks, whose servers get messages that no honest party would send.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "oramcore/schemes/s3oram/eviction_orders.h"
#include "tests/harness/volumes.h"
#include "tests/serverd/oram/strangers.h"

namespace s3oram::test {

constexpr BlockId kBlocks = 30;

class HostileFixture : public testing::TestWithParam<std::tuple<Evictor, int>> {
 protected:
  static std::uint64_t seed() { return static_cast<std::uint64_t>(std::get<1>(GetParam())); }

  struct Sample {
    Party from, to;
    Bytes message;
  };

  // Makes a volume with some blocks, and keeps a few messages of every type from the making.
  HostileFixture()
      : params_(safe_volume(std::get<0>(GetParam()), 4)),
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
      samples_.push_back(
          {kClient, server, request(1, DigestsRequest{open_.next.epoch, evictions(), kRoot})});
      samples_.push_back(
          {kClient, server,
           request(1, MarkBucketsRequest{open_.next.epoch, evictions(), {{kRoot + 1, Seed{}}}})});
      samples_.push_back(
          {kClient, server,
           request(1, DisownRequest{open_.next.epoch, evictions(), kRoot + 1, {0, 1}})});
      samples_.push_back(
          {kClient, server, request(1, LayoutRequest{open_.next.epoch, evictions()})});
      samples_.push_back(
          {kClient, server, request(1, CheckRequest{open_.next.epoch, evictions(), 0, kRoot})});
      samples_.push_back({kClient, server,
                          request(1, ReenrolRequest{{open_.volume, params_, server},
                                                    open_.next,
                                                    evictions(),
                                                    static_cast<std::uint8_t>(cluster_height_),
                                                    0,
                                                    {{kRoot + 1, kRoot + 1, 1, 7}},
                                                    true})});
      for (Bytes& message : further_requests(server))
        samples_.push_back({kClient, server, std::move(message)});
    }
    recording_ = false;
  }

  /// Returns requests that the making of a volume does not need, some of them of other schemes.
  std::vector<Bytes> further_requests(Party server) {
    const std::uint64_t epoch = open_.next.epoch;
    const EvictionId id{evictions(), {}};
    const VolumeDescription volume{open_.volume, params_, server};
    const SlotAddress at{kRoot + 1, 0};
    const Bytes share(params_.slot_size()), helpers{1, 2};
    RejoinRequest rejoin;
    rejoin.volume = volume;
    rejoin.session = open_.next;
    rejoin.tree_version = evictions();
    rejoin.height = static_cast<std::uint8_t>(cluster_height_);
    return {
        request(1, FitsRequest{volume}),
        request(1, TrafficRequest{}),
        request(1, RoomRequest{}),
        request(1, LinesRequest{}),
        request(1, ProbeRequest{.answer = 100, .padding = share}),
        request(1, MeasureRequest{.milliseconds = 1, .servers = {}}),
        request(1, PeerRequest{open_.volume, as_bytes("2=127.0.0.1:1,key")}),
        request(1, HeadsRequest{epoch, evictions(), kRoot + 1, 16}),
        request(1, CertifyRequest{epoch, id, Seed{}, RowsAsked::with_list}),
        request(1, rejoin),
        request(1, MarkPreparedRequest{epoch, id, Seed{}}),
        request(1, ReadSlotRequest{epoch, evictions(), at}),
        request(1, HealSlotRequest{epoch, evictions(), at, 0, share}),
        request(1, ContributeRequest{.epoch = epoch,
                                     .tree_version = evictions(),
                                     .request_id = 1,
                                     .oldest = 1,
                                     .at = at,
                                     .to = 3,
                                     .helpers = helpers,
                                     .masks = {Seed{}}}),
        request(1, MendRequest{.epoch = epoch,
                               .tree_version = evictions(),
                               .request_id = 1,
                               .oldest = 1,
                               .at = at,
                               .access = 0,
                               .helpers = helpers}),
        request(1, ReserveRequest{epoch, static_cast<std::uint8_t>(cluster_height_)}),
        request(1, WithdrawRequest{epoch, 1}),
        request(1, DiscardRequest{epoch, id}),
        request(1, ReleaseRequest{epoch, id}),
        request(1, RelayRequest{epoch, 1, 1, share}),
    };
  }

  bool seen(Party from, Party to, const Bytes& message) {
    if (message.size() < Rpc::kHeaderSize) return true;
    if (recording_ && is_question(message)) {
      if (type_of(message) == MessageType::open) {
        open_message_ = message;
        open_ = *decode<OpenRequest>(ByteSpan(open_message_).subspan(Rpc::kHeaderSize));
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
  static Bytes packed(const CheckedShuffleOrders& orders) {
    Writer writer;
    const_cast<CheckedShuffleOrders&>(orders).fields(writer);
    return writer.take();
  }
  /// Returns orders that the server can carry out.
  Bytes orders_of(Party server, const EvictionId& id, unsigned height) {
    if (params_.evictor == Evictor::matrix)
      return Bytes((height + 1) * 2 * params_.bucket_size * params_.bucket_size);
    const std::size_t slots = PathSlots::evicted(params_, id.eviction, height).count();
    Permutation to(slots);
    for (std::uint32_t i = 0; i < slots; ++i) to[i] = i;
    EvictionPlan plan{.movement = to, .placements = {}, .overflow = {}};
    Prg prg(Seed{}, as_bytes("orders"));
    return eviction_orders(params_, plan, prg).messages[server - 1];
  }
  std::uint64_t evictions() { return cluster_.engine().status().evictions; }
  std::uint64_t tree_version() {
    for (auto sample = samples_.rbegin(); sample != samples_.rend(); ++sample)
      if (type_of(sample->message) == MessageType::commit)
        return decode<CommitRequest>(ByteSpan(sample->message).subspan(Rpc::kHeaderSize))
            ->id.eviction;
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
  std::map<std::uint64_t, std::string> refused_;  // by number: requests that must not be accepted
  Cluster cluster_;
};

}  // namespace s3oram::test
