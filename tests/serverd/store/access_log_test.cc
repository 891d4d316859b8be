// Tests the record of a server's reads and writes: its lines, its limits, and the files to which it
// appends.
#include "serverd/store/access_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

using Cause = AccessLog::Cause;
using Operation = AccessLog::Operation;

constexpr std::uint64_t kPlenty = 1 << 20;

class AccessLogTest : public ::testing::Test {
 protected:
  std::string text() const {
    std::ifstream in(file_);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream in(text());
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
  TemporaryDirectory directory_;
  const std::filesystem::path file_ = directory_.path() / "record";
};

TEST_F(AccessLogTest, HasALineForEachReadAndWrite) {
  {
    const auto record = AccessLog::start(file_, 2, kPlenty);
    ASSERT_TRUE(record) << record.error().message;
    const std::uint64_t first = (*record)->begin();
    (*record)->note(first, Cause::access, Operation::read, {1, 0, 24});
    (*record)->note(first, Cause::access, Operation::read, {3, 0, 60});
    (*record)->note((*record)->begin(), Cause::root, Operation::write, {1, 5, 1});
  }
  const auto all = lines();
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0], "# s3oramfs record 1, of server 2");
  EXPECT_EQ(all[1], "time,request,cause,operation,bucket,slot,slots");
  const auto after_time = [&](std::size_t line) { return all[line].substr(all[line].find(',')); };
  EXPECT_EQ(after_time(2), ",1,access,read,1,0,24");
  EXPECT_EQ(after_time(3), ",1,access,read,3,0,60");
  EXPECT_EQ(after_time(4), ",2,root,write,1,5,1");
  struct stat found {};
  ASSERT_EQ(::stat(file_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0600u);
}

TEST_F(AccessLogTest, AppendsToARecordAndToNothingElse) {
  for (int life = 0; life < 2; ++life) {
    const auto record = AccessLog::start(file_, 1, kPlenty);
    ASSERT_TRUE(record);
    (*record)->note((*record)->begin(), Cause::root, Operation::write, {1, 0, 1});
  }
  EXPECT_EQ(lines().size(), 4u);
  std::ofstream(file_) << "somebody's letters, which are long enough";
  const auto refused = AccessLog::start(file_, 1, kPlenty);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::usage);
  EXPECT_EQ(text(), "somebody's letters, which are long enough");
}

TEST_F(AccessLogTest, RefusesPipesAndLinks) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_FALSE(AccessLog::start(file_, 1, kPlenty));
  const auto link = directory_.path() / "link";
  std::filesystem::create_symlink("elsewhere", link);
  EXPECT_FALSE(AccessLog::start(link, 1, kPlenty));
}

TEST_F(AccessLogTest, EndsAtItsLimitWithAWholeLine) {
  constexpr std::uint64_t kMost = 5000;
  {
    const auto record = AccessLog::start(file_, 1, kMost);
    ASSERT_TRUE(record);
    for (int i = 0; i < 2000; ++i)
      (*record)->note((*record)->begin(), Cause::access, Operation::read, {1, 0, 1});
  }
  EXPECT_LE(std::filesystem::file_size(file_), kMost);
  EXPECT_GT(std::filesystem::file_size(file_), kMost - 100);
  EXPECT_EQ(text().back(), '\n');
}

// More lines at a time than there is memory for: the record says how many are missing.
TEST_F(AccessLogTest, CountsWhatItLeavesOut) {
  constexpr std::size_t kNoted = 200'000;
  {
    const auto record = AccessLog::start(file_, 1, std::uint64_t{1} << 30);
    ASSERT_TRUE(record);
    for (std::size_t i = 0; i < kNoted; ++i)
      (*record)->note(1, Cause::access, Operation::read, {1, 0, 1});
  }
  std::size_t there = 0, left_out = 0;
  for (const std::string& line : lines()) {
    if (line.starts_with("# s3oramfs") || line.starts_with("time")) continue;
    if (line.starts_with("# "))
      left_out += std::stoul(line.substr(2));
    else
      ++there;
  }
  EXPECT_EQ(there + left_out, kNoted);
}

}  // namespace
}  // namespace s3oram
