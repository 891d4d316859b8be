// Tests how a program handles the limits that it inherits. Each case is a child process with its
// own limits.
#include "oramcore/base/limits.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/disk.h"
#include "oramcore/base/system_error.h"
#include "oramcore/base/threads.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

constexpr rlim_t kUnlimited = RLIM_INFINITY;

void set_limit(int resource, rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  ::setrlimit(static_cast<__rlimit_resource>(resource), &limit);
}
rlim_t soft_limit(int resource) {
  rlimit limit{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &limit);
  return limit.rlim_cur;
}

/// Returns whether `holds()` returns true in a separate process, which no signal ends.
bool in_child(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Limits, SoftOnesAreRaisedToTheHardOnes) {
  EXPECT_TRUE(in_child([] {
    set_limit(RLIMIT_FSIZE, 1 << 20, kUnlimited);
    set_limit(RLIMIT_NOFILE, 64, 200);
    set_limit(RLIMIT_AS, rlim_t{1} << 33, rlim_t{1} << 34);
    settle_limits();
    return soft_limit(RLIMIT_FSIZE) == kUnlimited && soft_limit(RLIMIT_NOFILE) == 200 &&
           soft_limit(RLIMIT_AS) == rlim_t{1} << 34 && file_size_limit() == kNoLimit &&
           address_space_limit() == std::uint64_t{1} << 34;
  }));
}

TEST(Limits, BeforeItsProcessorTimeIsUsedUpAProgramIsTold) {
  EXPECT_TRUE(in_child([] {
    set_limit(RLIMIT_CPU, 5, 100);
    settle_limits();
    return soft_limit(RLIMIT_CPU) == 90 && processor_time_limit() == 90;
  }));
}

TEST(Limits, AFileThatMayNotGrowIsLikeAFullDisk) {
  const TemporaryDirectory folder;
  EXPECT_TRUE(in_child([&] {
    set_limit(RLIMIT_FSIZE, 1 << 20, 1 << 20);
    settle_limits();
    auto file = system_disk().open(folder.path() / "file");
    const Bytes some(4096);
    const auto refused = [](const Status& status) {
      return !status && status.error().code == Errc::disk_full &&
             status.error().message.find("ulimit -f, LimitFSIZE=") != std::string::npos;
    };
    return file && (*file)->write(0, some) && (*file)->reserve(1 << 20) &&
           (*file)->largest() == 1 << 20 && refused((*file)->write(1 << 20, some)) &&
           refused((*file)->reserve(2 << 20)) && refused((*file)->truncate(2 << 20));
  }));
}

TEST(Limits, WhatIsNeededAndWhatIsAllowedIsSaid) {
  EXPECT_TRUE(in_child([] {
    set_limit(RLIMIT_FSIZE, 1 << 20, 1 << 20);
    const auto checked = check_limits("v", {.file_bytes = 2 << 20});
    return check_limits("v", {.file_bytes = 1 << 20}) && !checked &&
           checked.error().code == Errc::unsupported &&
           checked.error().message ==
               "v: the limit of file sizes is 1.0 MiB, and at least 2.0 MiB are needed; raise it "
               "(ulimit -f, LimitFSIZE=)";
  }));
  EXPECT_TRUE(in_child([] {
    set_limit(RLIMIT_NOFILE, 50, 50);
    return check_limits("v", {.open_files = 50}) && !check_limits("v", {.open_files = 51});
  }));
  EXPECT_TRUE(in_child([] {
    set_limit(RLIMIT_DATA, rlim_t{1} << 33, rlim_t{1} << 33);
    const std::uint64_t most = std::uint64_t{1} << 33;
    return check_limits("v", {.address_space = most}) &&
           !check_limits("v", {.address_space = most + 1});
  }));
}

TEST(Limits, ThreadsHaveTheirStacksWhateverTheShellSays) {
  for (const rlim_t shell : {rlim_t{128} << 10, rlim_t{1} << 30, kUnlimited})
    EXPECT_TRUE(in_child([shell] {
      set_limit(RLIMIT_STACK, shell, shell);
      settle_limits();
      pthread_attr_t attributes;
      std::size_t stack = 0;
      ::pthread_getattr_default_np(&attributes);
      ::pthread_attr_getstacksize(&attributes, &stack);
      return stack == 2 << 20;
    })) << shell;
}

// (Sanitizers map memory that they need, and cannot do without it.)
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Limits, ThreadsThatCannotBeStartedAreErrors) {
  // There is no room for another stack. (A limit on the number of processes does not apply to
  // root.)
  EXPECT_TRUE(in_child([] {
    settle_limits();
    set_limit(RLIMIT_AS, 1 << 20, 1 << 20);
    const auto many = check_threads(20);
    const auto one = start_thread("a test", [] {});
    const std::string needed = "ulimit -u, TasksMax=";
    return !many && many.error().message.starts_with("only 0 of 20 threads can be started") &&
           many.error().message.find(needed) != std::string::npos && !one &&
           one.error().message.find("for a test") != std::string::npos &&
           one.error().message.find(needed) != std::string::npos;
  }));
  EXPECT_TRUE(check_threads(20));  // not earlier: the child would have their stacks
}

TEST(Limits, WithoutMemoryAProgramEndsInWords) {
  Descriptor ends[2];
  ASSERT_TRUE(open_pipe(ends));
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1].get(), STDERR_FILENO);
    settle_limits();
    set_limit(RLIMIT_AS, 1 << 20, 1 << 20);
    try {
      for (;;) static_cast<void>(*new volatile char[1 << 20]);
    } catch (...) {
      ::_exit(99);
    }
  }
  ends[1].close();
  std::string said(4096, '\0');
  const ssize_t got = ::read(ends[0].get(), said.data(), said.size());
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(Errc::failed));
  ASSERT_GT(got, 0);
  EXPECT_NE(said.find("there is no more memory"), std::string::npos) << said;
}
#endif

TEST(Limits, NewFilesAreTheirUsersAlone) {
  const TemporaryDirectory folder;
  EXPECT_TRUE(in_child([&] {
    ::umask(0777);
    settle_limits();
    const Descriptor file(::open((folder.path() / "f").c_str(), O_CREAT | O_RDWR, 0666));
    struct stat found {};
    return ::fstat(file.get(), &found) == 0 && (found.st_mode & 0777) == 0600;
  }));
}

}  // namespace
}  // namespace s3oram
