// Tests that small files are replaced, created and read as durable_file.h promises.
#include "oramcore/base/durable_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <string>
#include <thread>

#include "oramcore/base/descriptor.h"
#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

class DurableFileTest : public testing::Test {
 protected:
  std::string content() const {
    const auto read = read_small_file(file_, 100);
    return read ? std::string(read->begin(), read->end()) : read.error().message;
  }
  std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(directory_.path()), {});
  }
  uid_t owner() const {
    struct stat found {};
    EXPECT_EQ(::stat(file_.c_str(), &found), 0);
    return found.st_uid;
  }

  TemporaryDirectory directory_;
  const fs::path file_ = directory_ / "file";
};

TEST_F(DurableFileTest, IsReplacedWhole) {
  ASSERT_GOOD(write_durably(file_, as_bytes("one")));
  ASSERT_GOOD(write_durably(file_, as_bytes("two and more")));
  EXPECT_EQ(content(), "two and more");
  EXPECT_EQ(fs::status(file_).permissions(), fs::perms(0600));
  EXPECT_EQ(entries(), 1) << "a temporary file was left";
  EXPECT_FALSE(write_durably(directory_ / "no" / "file", as_bytes("x")));
}

TEST_F(DurableFileTest, IsCreatedOnce) {
  ASSERT_GOOD(create_durably(file_, as_bytes("one"), FileOwner::of_directory));
  EXPECT_EQ(create_durably(file_, as_bytes("two"), FileOwner::of_directory).error().code,
            Errc::exists);
  EXPECT_EQ(content(), "one");
  EXPECT_EQ(fs::status(file_).permissions(), fs::perms(0600));
  EXPECT_EQ(entries(), 1) << "a temporary file was left";
}

TEST_F(DurableFileTest, IsReadUpToALimit) {
  ASSERT_GOOD(write_durably(file_, as_bytes("twelve bytes")));
  EXPECT_EQ(read_small_file(file_, 12)->size(), 12u);
  EXPECT_FALSE(read_small_file(file_, 11));
  EXPECT_FALSE(read_small_file(directory_.path(), 100));
  EXPECT_FALSE(read_small_file(directory_ / "no", 100));
}

TEST_F(DurableFileTest, APipeIsReadWithoutWaitingForAWriter) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_EQ(read_small_file(file_, 100)->size(), 0u);
  Descriptor ends[2];
  ASSERT_TRUE(open_pipe(ends));
  std::thread writer([&] {
    for (const char* part : {"in ", "parts"})
      EXPECT_EQ(::write(ends[1].get(), part, std::strlen(part)), std::ssize(std::string(part)));
    ends[1].close();
  });
  EXPECT_EQ(read_small_file(fmt::format("/dev/fd/{}", ends[0].get()), 100)->size(), 8u);
  writer.join();
}

// Such a link would make root write where the maker of the link may not.
TEST_F(DurableFileTest, NothingIsWrittenThroughALinkBesideIt) {
  const fs::path other = directory_ / "other";
  ASSERT_GOOD(write_durably(other, as_bytes("another's")));
  fs::create_symlink(other, file_.string() + ".new");
  ASSERT_GOOD(write_durably(file_, as_bytes("one")));
  EXPECT_EQ(content(), "one");
  EXPECT_EQ(read_small_file(other, 100)->size(), 9u);
}

TEST_F(DurableFileTest, WhatRootWritesBelongsToTheOwnerThatIsNamed) {
  if (::geteuid() != 0) return;  // there is only one owner
  constexpr uid_t kDirectorys = 1234, kFormer = 4321;
  ASSERT_EQ(::chown(directory_.path().c_str(), kDirectorys, kDirectorys), 0);
  ASSERT_GOOD(write_durably(file_, as_bytes("one")));
  EXPECT_EQ(owner(), 0u);
  ASSERT_GOOD(write_durably(file_, as_bytes("one"), FileOwner::of_directory));
  EXPECT_EQ(owner(), kDirectorys);
  ASSERT_EQ(::chown(file_.c_str(), kFormer, kFormer), 0);
  ASSERT_GOOD(write_durably(file_, as_bytes("two")));
  EXPECT_EQ(owner(), kFormer);
}

}  // namespace
}  // namespace s3oram
