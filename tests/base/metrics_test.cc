// Tests metrics and their text for Prometheus, and the limit on repeated log lines.
#include "oramcore/base/metrics.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "oramcore/base/human.h"
#include "oramcore/base/log_limit.h"
#include "tests/harness/exposition.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;

TEST(Metrics, AnEmptyOneIsAnEmptyPage) { EXPECT_EQ(Metrics().text(), ""); }

TEST(Metrics, WritesEachKindAsTheFormatSays) {
  Metrics metrics;
  metrics.counter("s3o_things_total", "Things.").add(3);
  metrics.gauge("s3o_level_bytes", "A level.", {{"server", "1"}}).set(1.5);
  metrics.histogram("s3o_took_seconds", "How long.").observe(2ms);
  EXPECT_EQ(metrics.text().substr(0, metrics.text().find("s3o_took_seconds_bucket")),
            "# HELP s3o_level_bytes A level.\n# TYPE s3o_level_bytes gauge\n"
            "s3o_level_bytes{server=\"1\"} 1.5\n"
            "# HELP s3o_things_total Things.\n# TYPE s3o_things_total counter\n"
            "s3o_things_total 3\n"
            "# HELP s3o_took_seconds How long.\n# TYPE s3o_took_seconds histogram\n");
}

TEST(Metrics, AStrictReaderUnderstandsThePage) {
  Metrics metrics;
  metrics.counter("s3o_a_total", "With a \\ and\na line end.").add(1);
  metrics.counter("s3o_b_total", "By peer.", {{"peer", "1"}}).add(1);
  metrics.counter("s3o_b_total", "By peer.", {{"peer", "2"}}).add(2);
  metrics.gauge("s3o_odd", "Odd.", {{"a", "quote \" back \\ line\n end"}, {"b", ""}}).set(-1);
  metrics.gauge("s3o_inf", "Large.").set(std::numeric_limits<double>::infinity());
  metrics.gauge("s3o_nan", "None.").set(std::numeric_limits<double>::quiet_NaN());
  metrics.gauge("s3o_huge", "Huge.").set(1e300);
  metrics.gauge("s3o_tiny", "Tiny.").set(1e-300);
  for (const auto took : {0ms, 1ms, 3ms, 70ms, 100'000ms})
    metrics.histogram("s3o_c_seconds", "Took.", {{"kind", "x"}}).observe(took);
  metrics.histogram("s3o_d_seconds", "Never.");
  const Exposition page = read_exposition(metrics.text());
  EXPECT_EQ(page.kinds.size(), 9u);
  EXPECT_EQ(page.samples.at("s3o_b_total{peer=\"2\"}"), 2);
  EXPECT_EQ(page.samples.at("s3o_huge"), 1e300);
  check_histogram(page, "s3o_c_seconds", "kind=\"x\"");
  check_histogram(page, "s3o_d_seconds");
  EXPECT_EQ(page.samples.at("s3o_c_seconds_count{kind=\"x\"}"), 5);
  EXPECT_DOUBLE_EQ(page.samples.at("s3o_c_seconds_sum{kind=\"x\"}"), 100.074);
}

TEST(Metrics, TheStrictReaderRefusesWhatIsWrong) {
  for (const char* line :
       {"", "x 1", "# TYPE s3o_a counter", "# HELP s3o_b", "# TYPE s3o_b widget", "s3o_b",
        "s3o_b x", "s3o_b{ 1", "s3o_b{a=1} 1", "s3o_b{a=\"1} 1", "s3o_b{a=\"\\x\"} 1",
        "s3o_b{a=\"1\"}1", "s3o_b 1 2", "s3o_b 0x1", "1s3o_b 1"}) {
    Exposition page;
    std::string family;
    ASSERT_TRUE(read_line("# HELP s3o_b B.", page, family));
    ASSERT_TRUE(read_line("# TYPE s3o_b gauge", page, family));
    EXPECT_FALSE(read_line(line, page, family)) << line;
    EXPECT_TRUE(read_line("s3o_b{a=\"\\n\",b=\"\"} -1.5e-3", page, family));
  }
}

TEST(Metrics, ABoundBelongsToTheBucketBelowIt) {
  Histogram histogram({0.001, 0.01});
  histogram.observe(1ms);
  histogram.observe(1ms + 1ns);
  histogram.observe(-1ms);  // a clock that went back
  EXPECT_EQ(histogram.snapshot().below, (std::vector<std::uint64_t>{2, 3, 3}));
  EXPECT_DOUBLE_EQ(histogram.snapshot().sum, 0.002'000'001);
}

TEST(Metrics, TheSameNameAndLabelsAreTheSameInstrument) {
  Metrics metrics;
  Counter& one = metrics.counter("s3o_a_total", "A.", {{"x", "1"}});
  EXPECT_EQ(&one, &metrics.counter("s3o_a_total", "A.", {{"x", "1"}}));
  EXPECT_NE(&one, &metrics.counter("s3o_a_total", "A.", {{"x", "2"}}));
}

TEST(Metrics, ThreadsLoseNothing) {
  Metrics metrics;
  Counter& counter = metrics.counter("s3o_a_total", "A.");
  Histogram& histogram = metrics.histogram("s3o_b_seconds", "B.");
  constexpr int kThreads = 4, kEach = 10'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < kEach; ++n) {
        counter.add();
        histogram.observe(1us);
        metrics.counter("s3o_c_total", "C.", {{"n", std::to_string(n % 7)}}).add();
      }
    });
  for (int n = 0; n < 20; ++n) read_exposition(metrics.text());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), std::uint64_t{kThreads} * kEach);
  EXPECT_EQ(histogram.snapshot().below.back(), std::uint64_t{kThreads} * kEach);
}

TEST(HumanDuration, HasOneUnit) {
  EXPECT_EQ(human_duration(-1), "0 s");
  EXPECT_EQ(human_duration(0.4), "0 s");
  EXPECT_EQ(human_duration(40), "40 s");
  EXPECT_EQ(human_duration(119), "119 s");
  EXPECT_EQ(human_duration(180), "3 min");
  EXPECT_EQ(human_duration(7200), "2 h");
  EXPECT_EQ(human_duration(3 * 86400), "3 days");
}

TEST(LogLimit, CountsWhatItLeavesOut) {
  LogLimit limit(30s);
  EXPECT_TRUE(limit.pass(0s));
  EXPECT_EQ(limit.more(), "");
  EXPECT_FALSE(limit.pass(1s));
  EXPECT_FALSE(limit.pass(29s));
  EXPECT_TRUE(limit.pass(30s));
  EXPECT_EQ(limit.more(), " (2 more such lines were left out)");
  EXPECT_TRUE(limit.pass(90s));
  EXPECT_EQ(limit.more(), "");
}

}  // namespace
}  // namespace s3oram
