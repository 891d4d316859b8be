// Predictions for lines, compared with numbers computed by hand.
#include "oramcore/protocol/line_prediction.h"

#include <gtest/gtest.h>

namespace s3oram {
namespace {

// Blocks of 100 KB that take 110 KB on the line, with three servers.
constexpr AccessTraffic kTraffic{.block = 100'000,
                                 .up = 110'000,
                                 .down = 110'000,
                                 .first_up = 110'000,
                                 .first_down = 110'000,
                                 .between = 3'300'000,
                                 .servers = 3};

TEST(LinePredictionTest, TheSlowestLineIsFull) {
  EXPECT_DOUBLE_EQ(seconds_between_accesses(kTraffic, {.up = 1e6, .down = 4e6}), 0.11);
  EXPECT_DOUBLE_EQ(seconds_between_accesses(kTraffic, {.up = 4e6, .down = 1e6}), 0.11);
  // Each server sends a third of the traffic.
  EXPECT_DOUBLE_EQ(seconds_between_accesses(kTraffic, {.up = 1e9, .down = 1e9, .between = 1e7}),
                   0.11);
  EXPECT_EQ(seconds_between_accesses(kTraffic, {}), 0);
  AccessTraffic traffic = kTraffic;
  traffic.evicting = 0.01;
  EXPECT_DOUBLE_EQ(seconds_between_accesses(traffic, {.up = 1e9, .down = 1e9, .between = 1e7}),
                   0.12)
      << "evictions come one after the other";
}

TEST(LinePredictionTest, APhotoDoesNotWaitForEvictions) {
  AccessTraffic ring = kTraffic;
  ring.up = 8 * ring.first_up;
  const LinePrediction prediction = predict(ring, {.up = 1e6, .down = 1e6});
  EXPECT_NEAR(prediction.photo_seconds, 30 * 0.11, 1e-9);
  EXPECT_NEAR(prediction.bytes_per_second, 100'000 / 0.88, 1e-6);
  EXPECT_NEAR(prediction.between_per_byte, 33, 1e-9);
}

// On average the root has room for 15 more accesses; then the photo waits for two evictions of 10.
TEST(LinePredictionTest, APhotoWaitsForTheEvictionsThatItFillsTheRootWith) {
  AccessTraffic traffic = kTraffic;  // 30 accesses of 1.1 ms
  traffic.evict_every = 10;
  const Lines lines{.up = 1e8, .down = 1e8, .between = 1e7};  // 110 ms with evictions
  EXPECT_NEAR(predict(traffic, lines).photo_seconds, 5 * 0.0011 + 20 * 0.11, 1e-9);
  traffic.evict_every = 20;
  EXPECT_NEAR(predict(traffic, lines).photo_seconds, 30 * 0.0011, 1e-9);
  const Lines slow{.up = 1e5, .down = 1e5, .between = 1e7};
  traffic.evict_every = 10;
  EXPECT_NEAR(predict(traffic, slow).photo_seconds, 30 * 1.1, 1e-9)
      << "the evictions end meanwhile";
}

TEST(LinePredictionTest, OverAFastLineTheMachinesDecide) {
  AccessTraffic traffic = kTraffic;
  traffic.computing = 0.01;
  traffic.first_computing = 0.004;
  const Lines lines{.up = 1e12, .down = 1e12, .between = 1e12, .round_trip = 0.015};
  EXPECT_NEAR(predict(traffic, lines).photo_seconds, 30 * 0.004 + 4 * 0.015, 1e-6);
  EXPECT_NEAR(predict(traffic, lines).bytes_per_second, 1e7, 1);
  EXPECT_EQ(predict(traffic, {}).photo_seconds, 0) << "no line is known";
  EXPECT_EQ(predict(traffic, {}).bytes_per_second, 0);
}

TEST(LinePredictionTest, ALineIsReadInMegabits) {
  const auto lines = parse_line("5/29");
  ASSERT_TRUE(lines);
  EXPECT_DOUBLE_EQ(lines->up, 625'000);
  EXPECT_DOUBLE_EQ(lines->down, 3'625'000);
  EXPECT_TRUE(parse_line("0.5/2.5"));
  for (const char* wrong : {"", "5", "5/", "/29", "5/0", "-5/29", "5M/29M", "5/29/3", "nan/1"})
    EXPECT_FALSE(parse_line(wrong)) << wrong;
}

TEST(LinePredictionTest, WordsSayNothingThatIsNotKnown) {
  EXPECT_EQ(to_text(LinePrediction{}), "");
  const std::string text = to_text(LinePrediction{3.3, 625'000, 33});
  EXPECT_NE(text.find("3.3 s"), std::string::npos) << text;
  EXPECT_NE(text.find("33 GB"), std::string::npos) << text;
  EXPECT_EQ(to_text(LinePrediction{3.3, 625'000, 0}).find("each other"), std::string::npos);
}

MeasuredLines measured(double up, double down, double between) {
  MeasuredLines lines;
  lines.up = up * kMegabit;
  lines.down = down * kMegabit;
  lines.between = between * kMegabit;
  return lines;
}

TEST(MeasuredLinesTest, AFastLineIsTooFastToMatter) {
  const Lines lines = lines_of(measured(4.8, 28, 2000));
  EXPECT_DOUBLE_EQ(lines.up, 600'000);
  EXPECT_DOUBLE_EQ(lines.down, 3'500'000);
  EXPECT_GT(lines.between, 1e9);
  EXPECT_EQ(lines_of({}).up, 0) << "the line is not known";
}

TEST(MeasuredLinesTest, WordsSayWhatWasMeasured) {
  EXPECT_EQ(to_text(measured(4.8, 28, 240)),
            "Line: 4.8 Mbit/s up, 28 down; between servers: 240 Mbit/s.\n");
  EXPECT_EQ(to_text(measured(50, 5000, 3000)),
            "Line: 50 Mbit/s up, over 1000 down; between servers: fast enough not to matter.\n");
  EXPECT_EQ(to_text(MeasuredLines{}), "");
  MeasuredLines alone = measured(4.8, 28, 0);
  alone.between = std::nullopt;
  EXPECT_EQ(to_text(alone), "Line: 4.8 Mbit/s up, 28 down.\n");
  MeasuredLines between;
  between.between = 240 * kMegabit;
  EXPECT_EQ(to_text(between), "Between servers: 240 Mbit/s.\n");
}

TEST(MeasuredLinesTest, WordsSayHowToGiveWhatWasNot) {
  MeasuredLines none = measured(0, 0, 0);
  none.why = "server 1 is of an older version";
  EXPECT_EQ(to_text(none),
            "Line: not measured; between servers: not measured.\n"
            "Lines that were not measured count as fast (server 1 is of an older version): give "
            "their speed with --line UP/DOWN and --between RATE of s3oramfs init.\n");
  EXPECT_NE(to_text(measured(0, 5, 240)).find("--line UP/DOWN of"), std::string::npos);
  EXPECT_NE(to_text(measured(5, 5, 0)).find(" with --between RATE of"), std::string::npos);
}

}  // namespace
}  // namespace s3oram
