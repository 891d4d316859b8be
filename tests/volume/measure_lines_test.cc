// Measures the lines to servers in memory, among them old servers and liars. The speeds do not
// matter here; line_probe_test.cc tests those.
#include "oramcore/volume/measure_lines.h"

#include <gtest/gtest.h>

#include "oramcore/net/rpc.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_clock.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kClaimed = 12'500'000;

class MeasureLinesTest : public testing::Test {
 protected:
  MeasureLinesTest() {
    for (Party server = 1; server <= 2; ++server) {
      ports_.push_back(network_.attach(server));
      servers_.push_back(
          std::make_unique<Rpc>(context_.get_executor(), clock_, random_, *ports_.back()));
      servers_.back()->serve(
          [this, server](Party from, std::uint16_t type, Payload request) -> Task<Result<Bytes>> {
            EXPECT_EQ(from, kClient);
            co_return co_await answers_(server, static_cast<MessageType>(type), std::move(request));
          });
    }
  }

  Task<Result<Bytes>> well(MessageType type, Payload request) {
    co_await clock_.sleep(1ms);
    if (type == MessageType::measure) co_return encode(MeasureAnswer{kClaimed});
    const auto probe = decode<ProbeRequest>(request.body());
    EXPECT_TRUE(probe);
    received_ += probe->padding.size();
    const Bytes padding(probe->answer);
    co_return encode(ProbeAnswer{padding});
  }

  MeasuredLines measure(WantedLines wanted = {}) {
    std::optional<MeasuredLines> lines;
    const Duration begun = clock_.now();
    spawn(context_.get_executor(),
          [](MeasureLinesTest& test, WantedLines which,
             std::optional<MeasuredLines>& out) -> Task<void> {
            out = co_await measure_lines(test.context_.get_executor(), test.clock_, test.random_,
                                         *test.client_, 2, which);
          }(*this, wanted, lines));
    do {
      context_.restart();
      context_.poll();
    } while (!lines && clock_.advance());
    EXPECT_TRUE(lines);
    EXPECT_LT(clock_.now() - begun, 5s);
    return lines.value_or(MeasuredLines{});
  }

  asio::io_context context_{1};
  test::Network network_{context_.get_executor()};
  test::FastClock clock_{context_};
  Prg random_{Seed{}, as_bytes("lines")};
  std::unique_ptr<Transport> client_ = network_.attach(kClient);
  std::vector<std::unique_ptr<Transport>> ports_;
  std::vector<std::unique_ptr<Rpc>> servers_;
  std::function<Task<Result<Bytes>>(Party, MessageType, Payload)> answers_ =
      [this](Party, MessageType type, Payload request) { return well(type, std::move(request)); };
  std::size_t received_ = 0;
  Event never_;
};

TEST_F(MeasureLinesTest, AllLinesAreFound) {
  const MeasuredLines lines = measure();
  EXPECT_GT(lines.up.value(), 0);
  EXPECT_GT(lines.down.value(), 0);
  EXPECT_EQ(lines.between, kClaimed);
  EXPECT_NEAR(lines.round_trip, 1e-3, 1e-4);
  EXPECT_EQ(lines.why, "");
  EXPECT_LE(received_, std::size_t{33} << 20);
}

TEST_F(MeasureLinesTest, WhatIsKnownIsNotMeasured) {
  const MeasuredLines between = measure({.line = false, .between = true});
  EXPECT_FALSE(between.up || between.down);
  EXPECT_TRUE(between.between);
  EXPECT_EQ(received_, 0u);
  EXPECT_FALSE(measure({.line = true, .between = false}).between);
}

TEST_F(MeasureLinesTest, OlderServersAreNotMeasured) {
  answers_ = [](Party, MessageType type, Payload) -> Task<Result<Bytes>> {
    co_return fail(Errc::bad_request, "unknown request {}", static_cast<int>(type));
  };
  const MeasuredLines lines = measure();
  EXPECT_EQ(lines.up, 0.0);
  EXPECT_EQ(lines.down, 0.0);
  EXPECT_EQ(lines.between, 0.0);
  EXPECT_EQ(lines.why, "server 1 is of an older version");
  EXPECT_EQ(lines_of(lines).up, 0);
}

TEST_F(MeasureLinesTest, OneThatNeverAnswersCostsNoMoreThanItsTime) {
  answers_ = [this](Party server, MessageType type, Payload request) -> Task<Result<Bytes>> {
    if (server == 2) co_await never_.wait();
    co_return co_await well(type, std::move(request));
  };
  const MeasuredLines lines = measure();
  EXPECT_GT(lines.up.value(), 0) << "server 1 is on the same line";
  EXPECT_EQ(lines.between, 0.0);
  EXPECT_EQ(lines.why, "server 2 did not answer in time");
}

TEST_F(MeasureLinesTest, AnAnswerOfAnotherSizeDoesNotCount) {
  answers_ = [this](Party, MessageType type, Payload request) -> Task<Result<Bytes>> {
    if (type == MessageType::measure) co_return Bytes(Rpc::kHeaderSize + 3);
    const auto probe = decode<ProbeRequest>(request.body());
    const Bytes padding(probe->answer / 2);
    if (probe->answer > 0) co_return encode(ProbeAnswer{padding});
    co_return co_await well(type, std::move(request));
  };
  const MeasuredLines lines = measure();
  EXPECT_GT(lines.up.value(), 0);
  EXPECT_EQ(lines.down, 0.0);
  EXPECT_EQ(lines.between, 0.0);
}

TEST_F(MeasureLinesTest, TheSlowestServersWordCounts) {
  answers_ = [this](Party server, MessageType type, Payload request) -> Task<Result<Bytes>> {
    if (type == MessageType::measure) co_return encode(MeasureAnswer{server * kClaimed});
    co_return co_await well(type, std::move(request));
  };
  EXPECT_EQ(measure().between, kClaimed);
}

}  // namespace
}  // namespace s3oram
