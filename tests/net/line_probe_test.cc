// Measures the rate of lines that consist of a fake clock and a queue.
#include "oramcore/net/line_probe.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "tests/sim/sim_clock.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;
using test::FastClock;

constexpr LineProbe::Limits kLimits{
    .time = 500ms, .most_time = 1s, .bytes = 32 << 20, .message = 256 << 10};

Duration in_seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

class LineProbeTest : public testing::Test {
 protected:
  /// First in, first out. The sender learns of an arrival a round trip later.
  struct Queue {
    double rate = 0;  // bytes a second
    Duration round_trip{};
    Duration ramp{};  // until this time it carries a tenth
    Duration free{};
    std::size_t carried = 0;
  };

  Task<bool> carry(Queue& queue, std::size_t bytes) {
    const double rate = clock_.now() < queue.ramp ? queue.rate / 10 : queue.rate;
    queue.free = std::max(queue.free, clock_.now()) + in_seconds(static_cast<double>(bytes) / rate);
    queue.carried += bytes;
    co_await clock_.sleep(queue.free + queue.round_trip - clock_.now());
    co_return true;
  }

  LineRate measure(LineProbe::Carry carry, const Bytes& parties,
                   LineProbe::Limits limits = kLimits) {
    LineProbe probe(context_.get_executor(), clock_, std::move(carry));
    std::optional<LineRate> rate;
    spawn(context_.get_executor(),
          [](LineProbe& each, Bytes to, LineProbe::Limits most,
             std::optional<LineRate>& out) -> Task<void> {
            out = co_await each.run(std::move(to), most);
          }(probe, parties, limits, rate));
    do {
      context_.restart();
      context_.poll();
    } while (!rate && clock_.advance());
    EXPECT_TRUE(rate);
    return rate.value_or(LineRate{});
  }
  LineRate measure(Queue& queue, const Bytes& parties = {1}, LineProbe::Limits limits = kLimits) {
    return measure([&](Party, std::size_t bytes) { return carry(queue, bytes); }, parties, limits);
  }

  asio::io_context context_{1};
  FastClock clock_{context_};
};

TEST_F(LineProbeTest, FindsTheRateOfSlowAndFastLines) {
  for (const double megabits : {1.0, 5.0, 29.0, 250.0, 800.0})
    for (const Duration round_trip : {Duration(1ms), Duration(15ms), Duration(60ms)}) {
      Queue queue{.rate = megabits * 1e6 / 8, .round_trip = round_trip};
      const LineRate found = measure(queue);
      EXPECT_NEAR(found.bytes_per_second / queue.rate, 1, 0.05)
          << megabits << " Mbit/s, " << round_trip.count() / 1000000 << " ms";
      EXPECT_NEAR(static_cast<double>(found.round_trip.count()),
                  static_cast<double>(round_trip.count()), 3e6);
    }
}

TEST_F(LineProbeTest, PartiesShareALine) {
  Queue queue{.rate = 1e6, .round_trip = 15ms};
  EXPECT_NEAR(measure(queue, {1, 2, 3}).bytes_per_second / queue.rate, 1, 0.05);
}

TEST_F(LineProbeTest, LinesOfTheirOwnAddUp) {
  Queue slow{.rate = 1e6, .round_trip = 15ms}, fast{.rate = 4e6, .round_trip = 15ms};
  const auto each = [&](Party to, std::size_t bytes) {
    return carry(to == 1 ? slow : fast, bytes);
  };
  EXPECT_NEAR(measure(each, {1, 2}).bytes_per_second / 5e6, 1, 0.05);
}

TEST_F(LineProbeTest, ALineThatIsSlowAtFirstCountsByWhatItReaches) {
  Queue queue{.rate = 5e6, .round_trip = 15ms, .ramp = 150ms};
  EXPECT_NEAR(measure(queue).bytes_per_second / queue.rate, 1, 0.1);
}

TEST_F(LineProbeTest, NoLongQueueIsLeftBehind) {
  Queue queue{.rate = 625'000, .round_trip = 15ms};
  const Duration begun = clock_.now();
  measure(queue, {1, 2});
  EXPECT_LT(clock_.now() - begun, kLimits.time + 200ms);
}

TEST_F(LineProbeTest, SendsNoMoreThanItMay) {
  Queue queue{.rate = 1e9, .round_trip = 1ms};
  LineProbe::Limits limits = kLimits;
  limits.bytes = 1 << 20;
  EXPECT_GT(measure(queue, {1, 2}, limits).bytes_per_second, 0);
  EXPECT_LE(queue.carried, limits.bytes + 2048);
}

TEST_F(LineProbeTest, ABrokenLineIsLeftAlone) {
  Queue queue{.rate = 1e6, .round_trip = 15ms};
  int broken = 0;
  const auto each = [&](Party to, std::size_t bytes) -> Task<bool> {
    if (to != 2) co_return co_await carry(queue, bytes);
    ++broken;
    co_await clock_.sleep(1s);
    co_return false;
  };
  EXPECT_NEAR(measure(each, {1, 2}).bytes_per_second / queue.rate, 1, 0.05);
  EXPECT_EQ(broken, 1);
}

TEST_F(LineProbeTest, NothingThatArrivesIsNoRate) {
  const auto refused = [](Party, std::size_t) -> Task<bool> { co_return false; };
  EXPECT_EQ(measure(refused, {1, 2}).bytes_per_second, 0);
  EXPECT_EQ(measure(refused, {}).bytes_per_second, 0);
}

}  // namespace
}  // namespace s3oram
