// Tests root writes without an engine: the order in which they count, and the callers that wait for
// them.
#include "oramcore/client/root_writer.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "oramcore/base/random.h"
#include "oramcore/schemes/registry.h"
#include "tests/harness/volumes.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_clock.h"

namespace s3oram {
namespace {

/// There are no servers, so no write is ever acknowledged.
class RootWriterTest : public testing::Test {
 protected:
  void start(Task<void> task) { spawn(context_.get_executor(), std::move(task)); }
  /// Runs everything that can run without time passing. Returns whether anything ran.
  bool poll() {
    context_.restart();
    return context_.poll() > 0;
  }
  Task<void> write(WriteNumber number) {
    const Bytes content(state_.params.block_size);
    outcome_ = co_await writer_.write(number, {}, 0, content, {});
  }
  Task<void> await_begun() { awaited_ = co_await writer_.await_begun(); }

  asio::io_context context_;
  test::FastClock clock_{context_};
  test::Network network_{context_.get_executor(), &clock_};
  std::unique_ptr<Transport> port_ = network_.attach(kClient);
  Prg random_{Seed{}, as_bytes("root writes")};
  const VolumeParams params_ = test::safe_volume(Evictor::shuffle, 2);
  VolumeState state_{{context_.get_executor(), context_.get_executor(), context_.get_executor(),
                      clock_, random_, *port_},
                     {},
                     params_,
                     client_scheme(params_, {}, random_),
                     [this](Task<void> task) { start(std::move(task)); }};
  RootWriter writer_{state_, [] {}};
  std::optional<Status> outcome_, awaited_;
};

TEST_F(RootWriterTest, WaitsForAllWritesThatHaveBegun) {
  start(await_begun());
  poll();
  EXPECT_TRUE(awaited_.has_value()) << "no write is under way";
  awaited_.reset();
  start(write(0));
  start(await_begun());
  poll();
  EXPECT_FALSE(awaited_.has_value()) << "the write is under way";

  state_.die({Errc::shutting_down, "the test ends"});
  while (!outcome_ || !awaited_) ASSERT_TRUE(poll() || clock_.advance());
  EXPECT_EQ(awaited_->error().code, Errc::shutting_down);
  EXPECT_EQ(outcome_->error().code, Errc::shutting_down);
}

}  // namespace
}  // namespace s3oram
