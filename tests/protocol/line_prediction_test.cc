// Predictions for lines, against numbers worked out by hand.
#include "oramcore/protocol/line_prediction.h"

#include <gtest/gtest.h>

namespace s3oram {
namespace {

// Blocks of 100 KB that take 110 KB on the line, on three servers.
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
  // Each server sends a third of what all send.
  EXPECT_DOUBLE_EQ(seconds_between_accesses(kTraffic, {.up = 1e9, .down = 1e9, .between = 1e7}),
                   0.11);
  EXPECT_EQ(seconds_between_accesses(kTraffic, {}), 0);
}

TEST(LinePredictionTest, APhotoDoesNotWaitForEvictions) {
  AccessTraffic ring = kTraffic;
  ring.up = 8 * ring.first_up;
  const LinePrediction prediction = predict(ring, {.up = 1e6, .down = 1e6});
  EXPECT_NEAR(prediction.photo_seconds, 30 * 0.11, 1e-9);
  EXPECT_NEAR(prediction.bytes_per_second, 100'000 / 0.88, 1e-6);
  EXPECT_NEAR(prediction.between_per_byte, 33, 1e-9);
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
  EXPECT_EQ(to_text({}), "");
  const std::string text = to_text({3.3, 625'000, 33});
  EXPECT_NE(text.find("3.3 s"), std::string::npos) << text;
  EXPECT_NE(text.find("33 GB"), std::string::npos) << text;
  EXPECT_EQ(to_text({3.3, 625'000, 0}).find("each other"), std::string::npos);
}

}  // namespace
}  // namespace s3oram
