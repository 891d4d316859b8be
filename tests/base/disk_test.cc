// Tests the disk of the operating system, on whatever file system the tests run.
#include "oramcore/base/disk.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <iterator>

#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

/// Makes every later attempt of this process to open a file fail with `error`.
void refuse_to_open(int error) {
  sock_filter calls[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(calls), calls};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

class SystemDiskTest : public testing::Test {
 protected:
  std::unique_ptr<File> open() {
    auto file = system_disk().open(directory_ / "file");
    EXPECT_TRUE(file) << file.error().message;
    return std::move(*file);
  }
  static Bytes read(File& file, std::uint64_t offset, std::size_t size) {
    Bytes out(size, 0xee);
    EXPECT_TRUE(file.read(offset, out));
    return out;
  }
  TemporaryDirectory directory_;
};

TEST_F(SystemDiskTest, KeepsWhatWasWritten) {
  ASSERT_TRUE(open()->write(10, Bytes(3, 7)));
  auto file = open();
  EXPECT_EQ(read(*file, 9, 6), (Bytes{0, 7, 7, 7, 0, 0})) << "there are zeros beyond the end";
  EXPECT_TRUE(file->sync());
}

TEST_F(SystemDiskTest, ReservingChangesNothingThatIsRead) {
  auto file = open();
  ASSERT_TRUE(file->write(0, Bytes(100, 7)));
  ASSERT_TRUE(file->reserve(1 << 20));
  EXPECT_EQ(read(*file, 0, 100), Bytes(100, 7));
  EXPECT_EQ(read(*file, 100, 1 << 20), Bytes(1 << 20));
  ASSERT_TRUE(file->reserve(0));
  ASSERT_TRUE(file->reserve(10)) << "less than the file has";
  EXPECT_EQ(read(*file, 0, 100), Bytes(100, 7));
}

TEST_F(SystemDiskTest, MoreThanThereIsCannotBeReserved) {
  auto file = open();
  const auto room = std::filesystem::space(directory_.path()).available;
  const auto outcome = file->reserve(room + (std::uint64_t{1} << 40));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Errc::disk_full) << outcome.error().message;
}

TEST_F(SystemDiskTest, AFileIsCutOff) {
  auto file = open();
  ASSERT_TRUE(file->write(0, Bytes(100, 7)));
  ASSERT_TRUE(file->truncate(50));
  EXPECT_EQ(read(*file, 49, 3), (Bytes{7, 0, 0}));
  EXPECT_EQ(std::filesystem::file_size(directory_ / "file"), 50u);
}

TEST_F(SystemDiskTest, SaysWhichFileCannotBeOpened) {
  const auto file = system_disk().open(directory_ / "no" / "file");
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("no/file"), std::string::npos);
}

TEST_F(SystemDiskTest, SaysWhetherAFileCannotBeMadeBecauseTheDiskIsFull) {
  const auto open_failing = [&](int error) {
    refuse_to_open(error);
    const auto file = system_disk().open(directory_ / "file");
    ::_exit(file ? 0 : static_cast<int>(file.error().code));
  };
  const auto ends_with = [](Errc code) { return testing::ExitedWithCode(static_cast<int>(code)); };
  EXPECT_EXIT(open_failing(ENOSPC), ends_with(Errc::disk_full), "");
  EXPECT_EXIT(open_failing(EDQUOT), ends_with(Errc::disk_full), "");
  EXPECT_EXIT(open_failing(EMFILE), ends_with(Errc::failed), "");
}

}  // namespace
}  // namespace s3oram
