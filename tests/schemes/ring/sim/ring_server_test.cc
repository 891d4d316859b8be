// The server of ring, driven only by messages: what it keeps, what it refuses, and what it mends.
#include "serverd/ring/ring_server.h"

#include <gtest/gtest.h>

#include <random>

#include "oramcore/field/gf256.h"
#include "tests/base/good.h"
#include "tests/schemes/ring/sim/ring_world.h"

namespace s3oram::ring::test {
namespace {

const VolumeParams kVolume = small_ring(4, 3, 1);
const Params kParams(kVolume);

/// Sends requests to the server by hand.
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
  Result<Payload> try_open() {
    OpenRequest request{.volume = world_.volume(),
                        .known = {session_},
                        .next = {session_.epoch + 1, {7}},
                        .tree_version = rewrites_,
                        .root = {turns_},
                        .opening = 1};
    auto answer = ask(request);
    if (answer) session_ = request.next;
    return answer;
  }
  void open() { ASSERT_GOOD(try_open()); }
  /// Stores, prepares and commits a version of each bucket, with rows of row_size bytes each.
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
  /// This many turns have asked or written.
  void asked(Turn turns) { turns_ = std::max(turns_, turns); }
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
  SimDisk& disk() { return world.disk(kServer); }
  /// Puts a file in place of one of the server's own, as an operator might.
  void put(const std::string& path, const Bytes& content) {
    const auto file = disk().open(path);
    ASSERT_GOOD(file);
    ASSERT_GOOD((*file)->truncate(0));
    ASSERT_GOOD((*file)->write(0, content));
    ASSERT_GOOD((*file)->sync());
  }
  Errc write_log(Turn turn, std::uint64_t access) {
    const WriteLogRequest request{client.epoch(), turn, access, Bytes(kParams.slot_size)};
    const Errc refusal = client.refusal(request);
    if (refusal == Errc::ok) client.asked(turn + 1);
    return refusal;
  }
  Errc fetch(BucketIndex bucket, VersionStamp stamp) {
    return client.refusal(FetchRowsRequest{client.epoch(), bucket, stamp, 0, 1, 0});
  }
  AskedPoints asked_of(BucketIndex bucket) {
    const auto answer = client.ask(LayoutRequest{client.epoch(), bucket, 1});
    const auto layout = answer ? decode<LayoutAnswer>(answer->body()) : std::nullopt;
    EXPECT_TRUE(layout && layout->versions.size() == 1);
    return layout ? layout->versions.at(0).asked : AskedPoints();
  }
  std::uint64_t offset_of(BucketVersionNumber version, std::size_t row) const {
    const std::uint64_t slot =
        version == kRootBuffer
            ? row
            : kParams.log_slots + (version - 1) * (kParams.bucket_size + 1) + row;
    return slot * (kParams.row_size + BucketVersion::kTrailer);
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
    restart();  // nothing of it is in memory now
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
  // Two lost rows cannot be rebuilt. The server says so, and makes nothing up.
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

// ---- a disk that fails

TEST_F(RingServer, TakesNoReadErrorThatPassesForDamage) {
  const Bytes rows = client.rows();
  const VersionStamp stamp = stamp_of(client.rewrite({{2, rows}}).attempt);
  restart();
  disk().faults.read = 1;
  for (int second = 0; second < 60; ++second) {
    ASSERT_EQ(fetch(2, stamp), Errc::failed);
    const auto value = retrieve({2, stamp, 9});
    ASSERT_FALSE(value);
    ASSERT_EQ(value.error().code, Errc::failed);
    world.pass(std::chrono::seconds(1));
  }
  disk().faults.read = 0;
  EXPECT_EQ(*retrieve({2, stamp, 9}), value_at(rows, 9));
}

TEST_F(RingServer, GivesUpRowsThatStayUnreadable) {
  const VersionStamp stamp = stamp_of(client.rewrite({{2, client.rows()}}).attempt);
  restart();
  for (const std::size_t row : {0, 2})
    disk().make_unreadable("slots", offset_of(1, row), offset_of(1, row) + 1);
  Duration waited{};
  while (fetch(2, stamp) == Errc::failed && waited < std::chrono::hours(1)) {
    world.pass(std::chrono::seconds(1));
    waited += std::chrono::seconds(1);
  }
  EXPECT_EQ(fetch(2, stamp), Errc::corrupt);
  EXPECT_GT(waited, Patience::kPatience / 2);
  EXPECT_LT(waited, 2 * Patience::kPatience);
}

TEST_F(RingServer, ReadsABucketWhoseDamagedRowCannotBeWritten) {
  const Bytes rows = client.rows();
  const VersionStamp stamp = stamp_of(client.rewrite({{2, rows}}).attempt);
  disk().rot("slots", offset_of(1, 1) + 7, 0x10);
  restart();
  disk().faults.write = 1;
  const auto answer = client.ask(FetchRowsRequest{client.epoch(), 2, stamp, 0, 4, 0});
  ASSERT_GOOD(answer);
  EXPECT_TRUE(std::ranges::equal(decode<FetchRowsAnswer>(answer->body())->rows, rows));
}

// The disk reports an error to only one sync, which must be the sync of the write.
TEST_F(RingServer, RebuildsARowWithoutHidingAFailedSync) {
  const VersionStamp stamp = stamp_of(client.rewrite({{2, client.rows()}}).attempt);
  disk().rot("slots", offset_of(1, 1) + 7, 0x10);
  restart();
  disk().fail_next_sync();
  ASSERT_GOOD(retrieve({2, stamp, 9}));
  EXPECT_EQ(write_log(0, 9), Errc::failed);
  EXPECT_EQ(write_log(0, 9), Errc::ok);
}

TEST_F(RingServer, WritesOverABadSectorOfTheLog) {
  for (const Turn turn : {0, 1, 2}) ASSERT_EQ(write_log(turn, 5 + turn), Errc::ok);
  restart();
  for (const std::size_t slot : {1, 2})
    disk().make_unreadable("slots", offset_of(kRootBuffer, slot), offset_of(kRootBuffer, slot) + 1);
  EXPECT_EQ(write_log(kParams.log_slots + 1, 90), Errc::ok);
  const auto read = [&] { return client.ask(ReadLogRequest{client.epoch(), 0, 3}); };
  auto answer = read();
  for (int second = 0; second < 600 && !answer && answer.error().code == Errc::failed; ++second) {
    world.pass(std::chrono::seconds(1));
    answer = read();
  }
  ASSERT_GOOD(answer);
  const auto log = decode<ReadLogAnswer>(answer->body());
  EXPECT_EQ(log->slots[0].access, 5u);
  EXPECT_EQ(log->slots[1].access, 90u);
  EXPECT_EQ(log->slots[2].access, 0u) << "it is lost";
}

TEST_F(RingServer, RemembersWhatWasAskedThoughAWriteFailed) {
  const VersionStamp stamp = stamp_of(client.rewrite({{2, client.rows()}}).attempt);
  ASSERT_GOOD(retrieve({2, stamp, 3}));
  disk().faults.write = 1;
  EXPECT_FALSE(retrieve({2, stamp, 200}));
  disk().faults.write = 0;
  ASSERT_GOOD(retrieve({2, stamp, 200}));
  restart();
  EXPECT_TRUE(asked_of(2).has(3));
  EXPECT_TRUE(asked_of(2).has(200));
}

TEST_F(RingServer, RemembersWhatWasAskedThoughASyncFailed) {
  for (int seed = 0; seed < 8; ++seed) {
    RingWorld other(kVolume, static_cast<std::uint64_t>(seed));
    Asking asking(other);
    asking.open();
    const VersionStamp stamp = stamp_of(asking.rewrite({{2, asking.rows()}}).attempt);
    const Bytes sealed(kParams.slot_size);
    const WriteLogRequest write{asking.epoch(), 4, 9, sealed};
    ASSERT_GOOD(asking.ask(RetrieveRequest{asking.epoch(), 4, {{2, stamp, 200}}}));
    other.disk(kServer).fail_next_sync();
    EXPECT_EQ(asking.refusal(write), Errc::failed);
    ASSERT_GOOD(asking.ask(write));
    other.cut(kServer);
    other.start_server();
    asking.asked(5);
    asking.open();
    const auto answer = asking.ask(LayoutRequest{asking.epoch(), 2, 1});
    ASSERT_GOOD(answer);
    EXPECT_TRUE(decode<LayoutAnswer>(answer->body())->versions.at(0).asked.has(200));
    const auto survey = asking.ask(SurveyRequest{other.volume()});
    ASSERT_GOOD(survey);
    EXPECT_EQ(decode<SurveyAnswer>(survey->body())->asked, 5u);
  }
}

TEST_F(RingServer, CountsEveryPointAsAskedWhereTheRecordIsDamaged) {
  const VersionStamp stamp =
      stamp_of(client.rewrite({{2, client.rows()}, {3, client.rows()}}).attempt);
  for (const BucketIndex bucket : {2, 3}) ASSERT_GOOD(retrieve({bucket, stamp, 3}));
  disk().rot("asked", 64 + 20, 0x10);
  restart();
  EXPECT_EQ(asked_of(2).count() + asked_of(3).count(), kPoints + 1);
}

TEST_F(RingServer, CountsEveryPointAsAskedWhereTheFileIsLost) {
  const VersionStamp stamp = stamp_of(client.rewrite({{2, client.rows()}}).attempt);
  ASSERT_GOOD(retrieve({2, stamp, 3}, 7));
  ASSERT_EQ(write_log(7, 9), Errc::ok);
  client.asked(8);
  ASSERT_GOOD(world.stop_server());
  ASSERT_TRUE(disk().remove("asked"));
  world.start_server();
  client.open();
  EXPECT_EQ(asked_of(2).count(), kPoints);
  const auto survey = client.ask(SurveyRequest{world.volume()});
  ASSERT_GOOD(survey);
  EXPECT_EQ(decode<SurveyAnswer>(survey->body())->asked, 8u) << "the log has turn 7";
}

// ---- a store that is not the newest

TEST_F(RingServer, RefusesAnOlderSlotsFileAndGoesOnWithTheNewest) {
  client.rewrite({{2, client.rows()}});
  const Bytes older = disk().content("slots");
  const Bytes rows = client.rows();
  VersionStamp stamp = 0;
  for (int i = 0; i < 3; ++i) stamp = stamp_of(client.rewrite({{2, rows}}).attempt);
  ASSERT_GOOD(world.stop_server());
  const Bytes newest = disk().content("slots");
  put("slots", older);
  world.start_server();
  const auto refused = client.try_open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::wrong_volume);
  put("slots", newest);
  for (int look = 0; look < 3; ++look) {
    world.server().look_after_store();
    world.settle();
  }
  client.open();
  EXPECT_EQ(*retrieve({2, stamp, 77}), value_at(rows, 77));
}

TEST_F(RingServer, RefusesASlotsFileThatIsCutOffOrGone) {
  ASSERT_EQ(write_log(0, 5), Errc::ok);  // nothing has been rewritten yet
  for (const std::size_t left : {std::size_t{0}, std::size_t{100}, std::size_t{4096}}) {
    ASSERT_GOOD(world.stop_server());
    const Bytes newest = disk().content("slots");
    put("slots", Bytes(newest.begin(), newest.begin() + static_cast<std::ptrdiff_t>(left)));
    if (left == 0) {
      ASSERT_TRUE(disk().remove("slots"));
    }
    world.start_server();
    const auto refused = client.try_open();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::wrong_volume);
    ASSERT_GOOD(world.stop_server());
    put("slots", newest);
    world.start_server();
    client.open();
  }
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

// The client takes a server that has acknowledged more turns than it knows for one set back.
TEST_F(RingServer, KnowsATurnThatAPowerCutHasMadeItForget) {
  const VersionStamp stamp = stamp_of(client.rewrite({{2, client.rows()}}).attempt);
  ASSERT_GOOD(retrieve({2, stamp, 3}, 4));
  client.asked(5);
  world.cut(kServer);
  world.start_server();
  client.open();
  ASSERT_EQ(write_log(4, 9), Errc::ok);
  const auto survey = client.ask(SurveyRequest{world.volume()});
  ASSERT_GOOD(survey);
  EXPECT_EQ(decode<SurveyAnswer>(survey->body())->asked, 5u);
}

TEST_F(RingServer, KeepsTheLog) {
  Bytes sealed(kParams.slot_size);
  client.random().fill(sealed);
  const Turn turn = kParams.log_slots + 2;
  ASSERT_GOOD(client.ask(WriteLogRequest{client.epoch(), turn, 50, sealed}));
  ASSERT_GOOD(client.ask(WriteLogRequest{client.epoch(), turn, 50, sealed}));  // once more
  client.asked(turn + 1);
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
  EXPECT_EQ(store(id, 2, 0, ByteSpan(row).first(7)), Errc::bad_request) << "not a whole row";
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
  // One row of each of many buckets and attempts, none of which is ever complete.
  for (std::uint8_t attempt = 1; attempt < 10; ++attempt)
    for (const BucketIndex bucket : {2, 3, 4, 5, 6, 7})
      taken += client.refusal(StoreRowsRequest{client.epoch(), {0, {attempt}}, bucket, 0, row}) ==
               Errc::ok;
  EXPECT_EQ(taken, 8u);
  for (std::uint8_t attempt = 1; attempt < 10; ++attempt)
    ASSERT_GOOD(client.ask(DiscardRequest{client.epoch(), {0, {attempt}}}));
  client.rewrite({{2, client.rows()}, {3, client.rows()}});
}

TEST_F(RingServer, TakesNoRowsOfAnAttemptThatIsOver) {
  const auto store = [&](std::uint64_t eviction, std::uint8_t attempt) {
    return client.refusal(
        StoreRowsRequest{client.epoch(), {eviction, {attempt}}, 2, 0, Bytes(kParams.row_size)});
  };
  for (std::uint8_t attempt = 1; attempt <= 6; ++attempt) {
    ASSERT_EQ(store(0, attempt), Errc::ok);
    ASSERT_GOOD(client.ask(DiscardRequest{client.epoch(), {0, {attempt}}}));
    EXPECT_EQ(store(0, attempt), Errc::failed) << "a late copy";
  }
  // If nobody discards an attempt, nothing of it is left once another attempt is committed.
  for (std::uint8_t attempt = 10; attempt < 13; ++attempt) ASSERT_EQ(store(0, attempt), Errc::ok);
  client.rewrite({{2, client.rows()}});
  for (std::uint8_t attempt = 20; attempt < 24; ++attempt) EXPECT_EQ(store(1, attempt), Errc::ok);
}

TEST_F(RingServer, PreparesNoBucketTwice) {
  const EvictionId id{0, {5}};
  for (const BucketIndex bucket : {2, 3})
    ASSERT_GOOD(client.ask(StoreRowsRequest{client.epoch(), id, bucket, 0, client.rows()}));
  EXPECT_EQ(client.refusal(PrepareRequest{client.epoch(), id, 1, {2, 2}}), Errc::bad_request);
  EXPECT_EQ(client.refusal(PrepareRequest{client.epoch(), id, 1, {2, 3}}), Errc::ok);
}

TEST_F(RingServer, CountsNoTurnBeyondTheLast) {
  const VersionStamp stamp = stamp_of(client.rewrite({{2, client.rows()}}).attempt);
  for (const Turn turn : {~Turn{0}, Turn{1} << 63}) {
    EXPECT_EQ(client.refusal(RetrieveRequest{client.epoch(), turn, {{2, stamp, 3}}}),
              Errc::bad_request);
    EXPECT_EQ(write_log(turn, 9), Errc::bad_request);
  }
}

// Each request on a full disk has room for records of asked points and for new versions.
TEST_F(RingServer, NeedsNoMoreRoomOnAFullDisk) {
  restart();
  disk().leave_space(0);
  for (int i = 0; i < 3; ++i) {
    const Bytes rows = client.rows();
    const VersionStamp stamp = stamp_of(client.rewrite({{2, rows}, {3, client.rows()}}).attempt);
    EXPECT_EQ(*retrieve({2, stamp, 77}), value_at(rows, 77));
  }
}

TEST_F(RingServer, AnswersNonsenseWithAnError) {
  std::mt19937_64 random(3);
  for (unsigned type = 0; type < 80; ++type) {
    if (type == static_cast<unsigned>(MessageType::hello) ||
        type == static_cast<unsigned>(MessageType::traffic) ||
        type == static_cast<unsigned>(MessageType::room) ||
        type == static_cast<unsigned>(MessageType::disk))
      continue;  // they have no body that could be wrong
    for (int i = 0; i < 40; ++i) {
      Bytes message(Rpc::kHeaderSize + random() % 120);
      for (std::size_t at = Rpc::kHeaderSize; at < message.size(); ++at)
        message[at] = random() % 3 == 0 ? static_cast<std::uint8_t>(random()) : 0;
      // Most requests get as far as the check of the session.
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
