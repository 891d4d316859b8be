// The volume that is made in a store decides whether its server is a ring's or another scheme's, as
// long as nobody has used a volume there.
#include "serverd/any_server.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "oramcore/client/servers.h"
#include "tests/base/good.h"
#include "tests/harness/shuffled_pool.h"
#include "tests/schemes/ring/sim/ring_world.h"

namespace s3oram::ring::test {
namespace {

using s3oram::test::FastClock;
using s3oram::test::Network;
using s3oram::test::ShuffledPool;

const VolumeParams kRing = small_ring(4, 3, 1);
const VolumeParams kMirror{.scheme = {1, 2},
                           .block_size = 512,
                           .bucket_size = 4,
                           .evict_every = 3,
                           .evictor = Evictor::selection,
                           .stash_slots = 8,
                           .privacy = Privacy::computational,
                           .first_height = 1};

class AnyServerTest : public testing::Test {
 protected:
  void SetUp() override { start(); }
  void TearDown() override { stop(); }

  void start() {
    port_ = network_.attach(kServer);
    auto opened = open_server("", kServer,
                              {context_.get_executor(), pool_.executor(), pool_.executor(),
                               pool_.executor(), clock_, random_, *port_, disk_, 1 << 30, 1});
    ASSERT_GOOD(opened);
    server_ = std::move(*opened);
  }
  void stop() {
    EXPECT_TRUE(run(server_->stop()));
    server_.reset();
    port_.reset();
  }

  VolumeDescription volume(const VolumeParams& params, std::uint8_t number) {
    return {{number}, params, kServer};
  }
  template <class Request>
  Status ask(const Request& request) {
    const auto port = network_.attach(kClient);
    Rpc rpc(context_.get_executor(), clock_, random_, *port);
    auto answer =
        run(rpc.call(kServer, Request::kType, encode(request), std::chrono::seconds(60), 1));
    rpc.stop();
    if (!answer) return fail(answer.error());
    return {};
  }
  Status fits(const VolumeDescription& made) { return ask(FitsRequest{made}); }
  Status create(const VolumeDescription& made) { return ask(CreateRequest{made}); }
  Status open(const VolumeDescription& made) {
    return ask(OpenRequest{.volume = made.id,
                           .known = {{}},
                           .next = {1, {7}},
                           .tree_version = 0,
                           .root = {0},
                           .opening = 1});
  }
  Errc survey(const VolumeDescription& made) {
    const Status answer = ask(SurveyRequest{made.id});
    return answer ? Errc::ok : answer.error().code;
  }

  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    spawn(context_.get_executor(), [](Task<T> inner, std::optional<T>& out) -> Task<void> {
      out.emplace(co_await std::move(inner));
    }(std::move(task), result));
    while (!result) {
      context_.restart();
      if (context_.poll_one() != 0 || pool_.run_one(true)) continue;
      if (!clock_.advance()) throw std::logic_error("nothing is left to do");
    }
    return std::move(*result);
  }

  boost::asio::io_context context_;
  FastClock clock_{context_};
  Network network_{context_.get_executor(), &clock_, 1};
  ShuffledPool pool_{2};
  SimDisk disk_{DiskImage{}, 3};
  Prg random_{Seed{}, as_bytes("any server")};
  std::unique_ptr<Transport> port_;
  std::unique_ptr<ShareServer> server_;
};

TEST_F(AnyServerTest, AnEmptyStoreTakesAnyVolume) {
  ASSERT_GOOD(fits(volume(kMirror, 1)));
  ASSERT_GOOD(fits(volume(kRing, 2)));
  ASSERT_GOOD(create(volume(kRing, 2)));
  EXPECT_EQ(server_->parties(), 1u);
  EXPECT_FALSE(server_->is_used());
  ASSERT_GOOD(open(volume(kRing, 2)));
  EXPECT_TRUE(server_->is_used());
}

TEST_F(AnyServerTest, AVolumeThatNobodyHasUsedMakesRoom) {
  ASSERT_GOOD(create(volume(kRing, 1)));
  ASSERT_GOOD(create(volume(kMirror, 2)));
  EXPECT_EQ(server_->parties(), 2u);
  stop();
  start();
  EXPECT_EQ(server_->parties(), 2u);
  ASSERT_GOOD(create(volume(kRing, 3)));
  EXPECT_EQ(server_->parties(), 1u);
  ASSERT_GOOD(open(volume(kRing, 3)));
}

TEST_F(AnyServerTest, OneThatIsUsedStays) {
  ASSERT_GOOD(create(volume(kRing, 1)));
  ASSERT_GOOD(open(volume(kRing, 1)));
  for (const VolumeParams& params : {kMirror, kRing}) {
    const Status refused = create(volume(params, 2));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::wrong_volume) << refused.error().message;
  }
  EXPECT_EQ(survey(volume(kRing, 1)), Errc::ok);
  stop();
  start();
  EXPECT_EQ(survey(volume(kRing, 1)), Errc::ok);
  EXPECT_FALSE(fits(volume(kMirror, 2)));
}

TEST_F(AnyServerTest, AMirrorThatIsUsedTakesNoRing) {
  ASSERT_GOOD(create(volume(kMirror, 1)));
  ASSERT_GOOD(open(volume(kMirror, 1)));
  const Status refused = create(volume(kRing, 2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::wrong_volume);
}

// A ring's store was lost: the client that still uses the ring opens its session again, and hears
// that there is no volume. Another answer would end its volume.
TEST_F(AnyServerTest, AnEmptyStoreLetsARingsClientOpenItsSession) {
  const Params params(kRing);
  Bytes log(params.slot_size);
  const auto answer = [](const Status& status) { return status ? Errc::ok : status.error().code; };
  EXPECT_EQ(answer(ask(RetrieveRequest{.epoch = 1, .turn = 1, .asks = {}})), Errc::need_open);
  EXPECT_EQ(answer(ask(WriteLogRequest{.epoch = 1, .turn = 1, .access = 1, .sealed = log})),
            Errc::need_open);
  EXPECT_EQ(answer(ask(ReadLogRequest{.epoch = 1, .first = 0, .count = 1})), Errc::need_open);
  EXPECT_EQ(answer(ask(CheckRequest{1, 1, 1})), Errc::need_open);
  EXPECT_EQ(answer(open(volume(kRing, 1))), Errc::wrong_volume);
}

}  // namespace
}  // namespace s3oram::ring::test
