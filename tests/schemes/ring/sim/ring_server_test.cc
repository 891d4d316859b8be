// The server of ring by its messages alone: what it keeps, what it refuses, and what it mends.
#include <gtest/gtest.h>

#include <random>

#include "oramcore/field/gf256.h"
#include "serverd/ring/server.h"
#include "tests/base/good.h"
#include "tests/schemes/ring/sim/ring_world.h"

namespace s3oram::ring::test {
namespace {

const VolumeParams kVolume = small_ring(4, 3, 1);
const Params kParams(kVolume);

/// Asks the server by hand.
class Asking {
 public:
  explicit Asking(RingWorld& world)
      : world_(world),
        port_(world.network.attach(kClient)),
        rpc_(world.context.get_executor(), world.clock, random_, *port_) {}
  ~Asking() { rpc_.stop(); }

  Result<Payload> ask(MessageType type, Bytes message, std::uint16_t tag = 1) {
    return world_.run(rpc_.call(kServer, type, std::move(message), std::chrono::seconds(60), tag));
  }
  template <class Request>
  Result<Payload> ask(const Request& request) {
    return ask(Request::kType, encode(request));
  }
  template <class Request>
  Errc refusal(const Request& request) {
    const auto answer = ask(request);
    return answer ? Errc::ok : answer.error().code;
  }
  void open() {
    OpenRequest request{.volume = world_.volume(),
                        .known = {session_},
                        .next = {session_.epoch + 1, {7}},
                        .tree_version = rewrites_,
                        .root = {turns_},
                        .opening = 1};
    ASSERT_GOOD(ask(request));
    session_ = request.next;
  }
  /// Stores, prepares and commits a version of each bucket; rows of row_size bytes each.
  EvictionId rewrite(const std::map<BucketIndex, Bytes>& buckets) {
    EvictionId id{rewrites_, {}};
    random_.fill(id.attempt);
    PrepareRequest request{.epoch = epoch(), .id = id, .next_height = 1, .buckets = {}};
    for (const auto& [bucket, rows] : buckets) {
      EXPECT_TRUE(ask(StoreRowsRequest{epoch(), id, bucket, 0, rows}));
      request.buckets.push_back(bucket);
    }
    EXPECT_TRUE(ask(request));
    EXPECT_TRUE(ask(CommitRequest{epoch(), id}));
    ++rewrites_;
    return id;
  }
  Bytes rows() {
    Bytes rows(kParams.bucket_size * kParams.row_size);
    random_.fill(rows);
    return rows;
  }
  std::uint64_t epoch() const { return session_.epoch; }
  void asked(Turn turns) { turns_ = turns; }
  Prg& random() { return random_; }

 private:
  RingWorld& world_;
  Prg random_{Seed{}, as_bytes("asking")};
  std::unique_ptr<Transport> port_;
  Rpc rpc_;
  Session session_;
  std::uint64_t rewrites_ = 0;
  Turn turns_ = 0;
};

Bytes value_at(const Bytes& rows, Point x) {
  std::vector<const std::uint8_t*> each;
  for (unsigned i = 0; i < kParams.bucket_size; ++i)
    each.push_back(rows.data() + i * kParams.row_size);
  Bytes value(kParams.row_size);
  gf::inner_product(powers(x, each.size()), each, value);
  return value;
}

class RingServer : public testing::Test {
 protected:
  void SetUp() override { client.open(); }
  Result<Bytes> retrieve(const Ask& ask, Turn turn = 0) {
    S3O_ASSIGN(const auto answer, client.ask(RetrieveRequest{client.epoch(), turn, {ask}}));
    const auto values = decode<RetrieveAnswer>(answer.body());
    if (!values || values->values.size() != 1) return fail(Errc::failed, "nonsense");
    return Bytes(values->values[0].begin(), values->values[0].end());
  }
  void restart() {
    client.asked(1);  // retrieve() has asked in turn 0
    ASSERT_GOOD(world.stop_server());
    world.start_server();
    client.open();
  }
  RingWorld world{kVolume, 1};
  Asking client{world};
};

TEST_F(RingServer, EvaluatesABucketAtEveryPoint) {
  const Bytes rows = client.rows();
  const VersionStamp stamp = stamp_of(client.rewrite({{2, rows}}).attempt);
  for (unsigned x = 0; x < kPoints; x += 5) {
    const auto value = retrieve({2, stamp, static_cast<Point>(x)});
    ASSERT_GOOD(value);
    EXPECT_EQ(*value, value_at(rows, static_cast<Point>(x)));
  }
  EXPECT_EQ(client.refusal(RetrieveRequest{client.epoch(), 0, {{2, stamp + 1, 3}}}),
            Errc::former_view);
  EXPECT_EQ(client.refusal(RetrieveRequest{client.epoch(), 0, {{3, stamp, 3}}}), Errc::former_view);
}

TEST_F(RingServer, KeepsTheFormerVersionUntilItIsReleased) {
  const Bytes first = client.rows(), second = client.rows();
  const VersionStamp former = stamp_of(client.rewrite({{2, first}}).attempt);
  const EvictionId id = client.rewrite({{2, second}});
  EXPECT_EQ(*retrieve({2, former, 9}), value_at(first, 9));
  EXPECT_EQ(*retrieve({2, stamp_of(id.attempt), 9}), value_at(second, 9));
  ASSERT_GOOD(client.ask(ReleaseRequest{client.epoch(), id}));
  EXPECT_EQ(client.refusal(RetrieveRequest{client.epoch(), 0, {{2, former, 9}}}),
            Errc::former_view);
}

TEST_F(RingServer, HasWhatWasPreparedAfterAPowerCut) {
  const Bytes rows = client.rows();
  EvictionId id{0, {1, 2, 3}};
  ASSERT_GOOD(client.ask(StoreRowsRequest{client.epoch(), id, 3, 0, rows}));
  ASSERT_GOOD(client.ask(PrepareRequest{client.epoch(), id, 1, {3}}));
  world.cut(kServer);
  world.start_server();
  client.open();
  ASSERT_GOOD(client.ask(CommitRequest{client.epoch(), id}));
  EXPECT_EQ(*retrieve({3, stamp_of(id.attempt), 77}), value_at(rows, 77));
}

TEST_F(RingServer, RebuildsADamagedRow) {
  const Bytes rows = client.rows();
  const VersionStamp stamp = stamp_of(client.rewrite({{2, rows}}).attempt);
  const std::uint64_t stride = kParams.row_size + BucketVersion::kTrailer;
  for (unsigned row = 0; row <= kParams.bucket_size; ++row) {
    world.disk(kServer).rot("slots", (kParams.log_slots + row) * stride + 40, 0x10);
    restart();  // nothing of it is in memory
    if (row < kParams.bucket_size) {
      const auto value = retrieve({2, stamp, 200});
      ASSERT_GOOD(value);
      EXPECT_EQ(*value, value_at(rows, 200)) << "row " << row;
    }
    const auto answer = client.ask(CheckRequest{client.epoch(), 2, stamp});
    ASSERT_GOOD(answer);
    const auto checked = decode<CheckAnswer>(answer->body());
    EXPECT_EQ(checked->rebuilt, row < kParams.bucket_size ? 0 : 1) << "row " << row;
    EXPECT_EQ(checked->lost, 0);
  }
  // Two at once cannot be had again: that is said, and nothing is made up.
  for (const unsigned row : {0u, 2u})
    world.disk(kServer).rot("slots", (kParams.log_slots + row) * stride + 40, 0x10);
  restart();
  const auto value = retrieve({2, stamp, 200});
  ASSERT_GOOD(value);
  EXPECT_TRUE(value->empty());
  const auto answer = client.ask(CheckRequest{client.epoch(), 2, stamp});
  ASSERT_GOOD(answer);
  EXPECT_EQ(decode<CheckAnswer>(answer->body())->lost, 2);
}

TEST_F(RingServer, RemembersWhatWasAsked) {
  const VersionStamp stamp = stamp_of(client.rewrite({{2, client.rows()}}).attempt);
  for (const Point point : {3, 200, 3}) ASSERT_GOOD(retrieve({2, stamp, point}, 4));
  ASSERT_GOOD(client.ask(WriteLogRequest{client.epoch(), 4, 9, Bytes(kParams.slot_size)}));
  world.cut(kServer);
  world.start_server();
  client.asked(5);
  client.open();
  const auto answer = client.ask(LayoutRequest{client.epoch(), 0, 10});
  ASSERT_GOOD(answer);
  const auto layout = decode<LayoutAnswer>(answer->body());
  ASSERT_EQ(layout->versions.size(), 1u);
  EXPECT_EQ(layout->versions[0].bucket, 2u);
  EXPECT_EQ(layout->versions[0].stamp, stamp);
  EXPECT_EQ(layout->versions[0].asked.count(), 2u);
  const auto survey = client.ask(SurveyRequest{world.volume()});
  ASSERT_GOOD(survey);
  EXPECT_EQ(decode<SurveyAnswer>(survey->body())->asked, 5u);
}

TEST_F(RingServer, KeepsTheLog) {
  Bytes sealed(kParams.slot_size);
  client.random().fill(sealed);
  const Turn turn = kParams.log_slots + 2;
  ASSERT_GOOD(client.ask(WriteLogRequest{client.epoch(), turn, 50, sealed}));
  ASSERT_GOOD(client.ask(WriteLogRequest{client.epoch(), turn, 50, sealed}));  // the same again
  world.cut(kServer);
  world.start_server();
  client.open();
  EXPECT_EQ(client.refusal(WriteLogRequest{client.epoch(), turn, 49, sealed}), Errc::bad_request);
  const auto answer = client.ask(ReadLogRequest{client.epoch(), 1, 2});
  ASSERT_GOOD(answer);
  const auto log = decode<ReadLogAnswer>(answer->body());
  ASSERT_EQ(log->slots.size(), 2u);
  EXPECT_EQ(log->slots[0].access, 0u);
  EXPECT_EQ(log->slots[1].access, 50u);
  EXPECT_EQ(log->slots[1].turn, turn);
  EXPECT_TRUE(std::ranges::equal(log->slots[1].sealed, sealed));
}

TEST_F(RingServer, RefusesAnOldCopy) {
  const VersionStamp stamp = stamp_of(client.rewrite({{2, client.rows()}}).attempt);
  ASSERT_GOOD(retrieve({2, stamp, 3}, 8));
  OpenRequest old{.volume = world.volume(),
                  .known = {{1, {7}}},
                  .next = {2, {8}},
                  .tree_version = 1,
                  .root = {8},
                  .opening = 1};
  EXPECT_EQ(client.refusal(old), Errc::stale_vault) << "turn 8 was asked";
  old.root = {9};
  old.tree_version = 0;
  EXPECT_EQ(client.refusal(old), Errc::stale_vault) << "a rewrite was committed";
  old.tree_version = 1;
  EXPECT_EQ(client.refusal(old), Errc::ok);
}

TEST_F(RingServer, RefusesWhatIsOutOfBounds) {
  const std::uint64_t epoch = client.epoch();
  const Bytes rows = client.rows();
  const EvictionId id{0, {5}};
  const Bytes row(kParams.row_size);
  const auto store = [&](const EvictionId& of, BucketIndex bucket, std::uint16_t first,
                         ByteSpan bytes) {
    return client.refusal(StoreRowsRequest{epoch, of, bucket, first, bytes});
  };
  EXPECT_EQ(store(id, 1, 0, rows), Errc::bad_request) << "a bucket of the top";
  EXPECT_EQ(store(id, 0, 0, rows), Errc::bad_request) << "no bucket";
  EXPECT_EQ(store(id, 1 << 20, 0, rows), Errc::bad_request) << "far below the leaves";
  EXPECT_EQ(store(id, 2, 1, rows), Errc::bad_request) << "beyond the last row";
  EXPECT_EQ(store(id, 2, 0, ByteSpan(row).first(7)), Errc::bad_request) << "no whole row";
  EXPECT_EQ(store({9, {5}}, 2, 0, rows), Errc::bad_request) << "a far rewrite";
  EXPECT_EQ(client.refusal(PrepareRequest{epoch, id, 1, {2}}), Errc::failed) << "nothing is there";
  EXPECT_EQ(client.refusal(CommitRequest{epoch, id}), Errc::bad_request);
  EXPECT_EQ(client.refusal(WriteLogRequest{epoch, 0, 1, row}), Errc::bad_request);
  EXPECT_EQ(client.refusal(ReadLogRequest{epoch, kParams.log_slots, 1}), Errc::bad_request);
  EXPECT_EQ(client.refusal(ReadLogRequest{epoch, 0, 9999}), Errc::bad_request);
  EXPECT_EQ(client.refusal(LayoutRequest{epoch, 0, LayoutRequest::kMost + 1}), Errc::bad_request);
  EXPECT_EQ(client.refusal(ReserveRequest{epoch, 9}), Errc::bad_request);
  RetrieveRequest many{epoch, 0, {}};
  many.asks.resize(kMaxHeight + 2);
  EXPECT_EQ(client.refusal(many), Errc::bad_request);
  EXPECT_EQ(client.refusal(CommitRequest{epoch + 1, id}), Errc::need_open);
  EXPECT_EQ(client.refusal(CommitRequest{epoch - 1, id}), Errc::fenced);
  VolumeDescription shares{.id = {9}, .params = VolumeParams(), .server = 1};
  shares.params.block_size = 512;
  EXPECT_EQ(client.refusal(CreateRequest{shares}), Errc::usage);
  VolumeDescription other{.id = {9}, .params = kVolume, .server = 1};
  EXPECT_EQ(client.refusal(CreateRequest{other}), Errc::wrong_volume);
}

TEST_F(RingServer, HoldsNoMoreAtATimeThanItSays) {
  const Bytes row(kParams.row_size);
  unsigned taken = 0;
  // One row of each of many buckets and attempts, none of which is ever whole.
  for (std::uint8_t attempt = 1; attempt < 10; ++attempt)
    for (const BucketIndex bucket : {2, 3, 4, 5, 6, 7})
      taken += client.refusal(StoreRowsRequest{client.epoch(), {0, {attempt}}, bucket, 0, row}) ==
               Errc::ok;
  EXPECT_EQ(taken, 8u);
  for (std::uint8_t attempt = 1; attempt < 10; ++attempt)
    ASSERT_GOOD(client.ask(DiscardRequest{client.epoch(), {0, {attempt}}}));
  client.rewrite({{2, client.rows()}, {3, client.rows()}});
}

TEST_F(RingServer, AnswersNonsenseWithAnError) {
  std::mt19937_64 random(3);
  for (unsigned type = 0; type < 80; ++type) {
    if (type == static_cast<unsigned>(MessageType::hello) ||
        type == static_cast<unsigned>(MessageType::traffic) ||
        type == static_cast<unsigned>(MessageType::room))
      continue;  // they have no body to be wrong
    for (int i = 0; i < 40; ++i) {
      Bytes message(Rpc::kHeaderSize + random() % 120);
      for (std::size_t at = Rpc::kHeaderSize; at < message.size(); ++at)
        message[at] = random() % 3 == 0 ? static_cast<std::uint8_t>(random()) : 0;
      // Most get as far as the session allows.
      if (message.size() >= Rpc::kHeaderSize + 8)
        std::memcpy(message.data() + Rpc::kHeaderSize, "\1\0\0\0\0\0\0\0", 8);
      static_cast<void>(client.ask(static_cast<MessageType>(type), std::move(message)));
    }
  }
  const Bytes rows = client.rows();
  const VersionStamp stamp = stamp_of(client.rewrite({{2, rows}}).attempt);
  EXPECT_EQ(*retrieve({2, stamp, 1}), value_at(rows, 1));
}

}  // namespace
}  // namespace s3oram::ring::test
