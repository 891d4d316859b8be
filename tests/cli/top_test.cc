// Tests the lines of s3oramfs top.
#include <gtest/gtest.h>

#include "cli/top_text.h"

namespace s3oram {
namespace {

TopSample sample(double time, std::uint64_t accesses, std::uint64_t sent, std::uint64_t unsaved) {
  TopSample made;
  made.time = time;
  made.accesses = accesses;
  made.unsaved = unsaved;
  made.unsaved_seconds = 3;
  made.healthy = true;
  made.servers = {{"a.example:5760", true, sent, 2 * sent}, {"b.example:5760", false, 0, 0}};
  return made;
}

TEST(Top, ShowsRatesBetweenSamples) {
  const std::deque<TopSample> samples{sample(10, 100, 0, 0), sample(12, 150, 4096, 1 << 20)};
  const std::string text = top_text(samples, "VAULT", 100);
  EXPECT_NE(text.find("VAULT: healthy\n"), std::string::npos) << text;
  EXPECT_NE(text.find("25.0/s"), std::string::npos) << text;
  EXPECT_NE(text.find("150 in all"), std::string::npos) << text;
  EXPECT_NE(text.find("2.0 KiB/s"), std::string::npos) << text;
  EXPECT_NE(text.find("NOT ANSWERING"), std::string::npos) << text;
  EXPECT_NE(text.find("1.0 MiB of contents"), std::string::npos) << text;
  EXPECT_NE(text.find("at this rate"), std::string::npos) << text;
}

TEST(Top, OfOneSampleThereAreNoRates) {
  const std::string text = top_text({sample(10, 100, 5, 0)}, "VAULT", 80);
  EXPECT_NE(text.find("0.0/s"), std::string::npos) << text;
  EXPECT_NE(text.find("all is durable"), std::string::npos) << text;
}

TEST(Top, ACounterThatBeganAgainIsNoRate) {
  const std::deque<TopSample> samples{sample(1, 100, 9999, 0), sample(2, 3, 1, 0)};
  EXPECT_NE(top_text(samples, "VAULT", 80).find(" 0.0/s"), std::string::npos);
}

TEST(Top, SparklinesFillTheirHeight) {
  EXPECT_EQ(sparkline({0, 1, 2}, 10), "▁▄█");
  EXPECT_EQ(sparkline({9, 0, 1, 2}, 3), "▁▄█");
  EXPECT_EQ(sparkline({0, 0}, 10), "▁▁");
  EXPECT_EQ(sparkline({}, 10), "");
}

}  // namespace
}  // namespace s3oram
