// Tests reading a record, the findings in it, and the pictures of it.
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "cli/record_file.h"
#include "cli/record_findings.h"
#include "cli/record_picture.h"

namespace s3oram {
namespace {

using Cause = RecordedRequest::Cause;

const std::string kHead =
    "# s3oramfs record 1, of server 1\ntime,request,cause,operation,bucket,slot,slots\n";

Result<Record> parsed(const std::string& text) {
  std::istringstream in(text);
  return parse_record(in, "FILE");
}

TEST(RecordFile, LinesOfARequestBecomeOne) {
  const auto record = parsed(kHead +
                             "1000000,1,access,read,1,0,24\n"
                             "1000001,1,access,read,3,0,60\n"
                             "1000002,1,access,read,5,0,0\n"
                             "1500000,2,root,write,1,7,1\n"
                             "# 12 lines left out\n"
                             "2000000,3,eviction,write,2,0,60\n");
  ASSERT_TRUE(record) << record.error().message;
  ASSERT_EQ(record->requests.size(), 3u);
  const RecordedRequest& access = record->requests[0];
  EXPECT_DOUBLE_EQ(access.time, 1);
  EXPECT_EQ(access.cause, Cause::access);
  EXPECT_FALSE(access.writes);
  EXPECT_EQ(access.level, 2u);
  EXPECT_EQ(access.slots, 84u);
  EXPECT_DOUBLE_EQ(access.place, 0.5);  // 5 is 2^2 + 1: the first edge goes right
  EXPECT_TRUE(record->requests[1].writes);
  EXPECT_EQ(record->requests[2].cause, Cause::eviction);
  EXPECT_EQ(record->left_out, 12u);
}

TEST(RecordFile, ALastLineMayBeCutShort) {
  const auto record = parsed(kHead + "1000000,1,access,read,1,0,24\n1000000,2,acc");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->requests.size(), 1u);
}

TEST(RecordFile, RefusesWhatIsNoRecordAndNamesTheLine) {
  EXPECT_FALSE(parsed(""));
  EXPECT_FALSE(parsed("hello\n"));
  for (const char* line :
       {"x,1,access,read,1,0,1", "1,1,access,read,0,0,1", "1,1,accessory,read,1,0,1",
        "1,1,access,reads,1,0,1", "1,1,access,read,1,0", "1,1,access,read,1,0,1,1",
        "1,1,access,read,99999999999,0,1", "-1,1,access,read,1,0,1"}) {
    const auto record = parsed(kHead + line + "\n");
    ASSERT_FALSE(record) << line;
    EXPECT_EQ(record.error().code, Errc::usage);
    EXPECT_NE(record.error().message.find("line 3"), std::string::npos) << record.error().message;
  }
}

RecordStretch stretch(unsigned seed, bool everywhere, std::size_t accesses = 800) {
  std::mt19937_64 random(seed);
  RecordStretch made{"<one> & all", "about", {}, {}};
  made.seconds = 10;
  for (std::size_t i = 0; i < accesses; ++i) {
    const double place = everywhere ? static_cast<double>(random() % 256) / 256 : 0.25;
    made.seen.push_back({.time = static_cast<double>(i) / 80, .level = 8, .place = place});
    made.asked.push_back({static_cast<double>(i % 512) / 512, i % 2 == 0});
  }
  return made;
}

TEST(RecordFindings, CountsAndTests) {
  const StretchFindings uniform = find_in(stretch(1, true)), fixed = find_in(stretch(2, false));
  EXPECT_EQ(uniform.accesses, 800u);
  EXPECT_EQ(uniform.of, 256u);
  EXPECT_GT(uniform.places, 230u);
  EXPECT_LT(uniform.repeats, 0.02);
  EXPECT_GT(uniform.uniform_p, 1e-6);
  EXPECT_EQ(uniform.asked_places, 512u);
  EXPECT_DOUBLE_EQ(uniform.asked_writes, 0.5);
  EXPECT_EQ(fixed.places, 1u);
  EXPECT_EQ(fixed.repeats, 1);
  EXPECT_LT(fixed.uniform_p, 1e-100);
}

// The tree grew while the record was made, and a path of the shorter tree is not a path of the
// current one.
TEST(RecordFindings, TakeTheHeightThatTheTreeHasNow) {
  RecordStretch grown = stretch(1, true);
  for (std::size_t i = 0; i < 100; ++i) grown.seen[i].level = 7;
  unsigned level = 0;
  EXPECT_EQ(accessed_places(grown.seen, level).size(), 700u);
  EXPECT_EQ(level, 8u);
}

TEST(RecordFindings, ComparisonTellsAServerThatIsNotOblivious) {
  const auto last = [](const FindingsTable& table) { return table.back(); };
  const auto good = last(compare({stretch(1, true), stretch(2, true), stretch(3, true)}));
  EXPECT_NE(good[2], "below 0.000001");
  const auto bad = last(compare({stretch(1, true), stretch(2, false), stretch(3, true)}));
  EXPECT_EQ(bad[2], "below 0.000001");
}

TEST(RecordPicture, NamesItsPanelsAndEscapesItsTexts) {
  const std::vector<RecordStretch> three{stretch(1, true), stretch(2, true), stretch(3, true)};
  const FindingsTable table = compare(three);
  const std::string picture = comparison_picture(three, table);
  for (const char* id : {"plain-1", "seen-2", "clock-3"})
    EXPECT_NE(picture.find("id=\"" + std::string(id) + "\""), std::string::npos) << id;
  EXPECT_NE(picture.find("&lt;one&gt; &amp; all"), std::string::npos);
  EXPECT_EQ(picture.find("<one>"), std::string::npos);
  const std::string page = record_page("T", {"before"}, picture, table, {"a < b"});
  EXPECT_NE(page.find("<p>a &lt; b</p>"), std::string::npos);
  EXPECT_NE(record_picture(three[0], describe(three[0])).find("id=\"places\""), std::string::npos);
}

TEST(RecordPicture, OfMillionsOfAccessesStaysSmall) {
  const RecordStretch many = stretch(1, true, 300'000);
  EXPECT_LT(record_picture(many, describe(many)).size(), 400'000u);
}

}  // namespace
}  // namespace s3oram
