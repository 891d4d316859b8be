// Tests work that another process does for this one.
#include "oramcore/base/errand.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "oramcore/base/durable_file.h"
#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

bool has_no_children() { return ::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD; }

TEST(Errand, IsDoneByAnotherProcess) {
  TemporaryDirectory root;
  const auto file = root.path() / "file";
  auto errand = Errand::prepare([file](ByteSpan content, std::vector<Descriptor>&) -> Status {
    const std::string text =
        std::to_string(::getpid()) + std::string(content.begin(), content.end());
    return write_durably(file, as_bytes(text));
  });
  ASSERT_GOOD(errand);
  EXPECT_TRUE(errand->is_prepared());
  EXPECT_FALSE(std::filesystem::exists(file)) << "it was not asked for yet";
  ASSERT_GOOD(errand->run(as_bytes(" content")));
  EXPECT_FALSE(errand->is_prepared());
  const auto written = read_small_file(file, 100);
  const std::string text(written->begin(), written->end());
  EXPECT_TRUE(text.ends_with(" content")) << text;
  EXPECT_FALSE(text.starts_with(std::to_string(::getpid()) + " "));
  EXPECT_TRUE(has_no_children());
}

TEST(Errand, GivesFiles) {
  auto errand = Errand::prepare([](ByteSpan, std::vector<Descriptor>& files) -> Status {
    for (const char* name : {"/dev/null", "/dev/zero"})
      files.emplace_back(::open(name, O_RDONLY | O_CLOEXEC));
    return {};
  });
  const auto files = errand->run();
  ASSERT_GOOD(files);
  ASSERT_EQ(files->size(), 2u);
  char byte = 1;
  EXPECT_EQ(::read((*files)[0].get(), &byte, 1), 0);
  EXPECT_EQ(::read((*files)[1].get(), &byte, 1), 1);
  EXPECT_EQ(byte, 0);
  EXPECT_EQ(::fcntl((*files)[0].get(), F_GETFD), FD_CLOEXEC);
}

TEST(Errand, GivesTheError) {
  auto errand = Errand::prepare([](ByteSpan, std::vector<Descriptor>&) -> Status {
    return fail(Errc::bad_mount_point, "not there");
  });
  const auto done = errand->run();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::bad_mount_point);
  EXPECT_EQ(done.error().message, "not there");
}

TEST(Errand, SaysThatItsProcessHasDied) {
  auto errand = Errand::prepare([](ByteSpan, std::vector<Descriptor>&) -> Status { ::_exit(0); });
  EXPECT_FALSE(errand->run());
  EXPECT_FALSE(errand->run()) << "it is gone by now";
}

TEST(Errand, IsNotDoneIfNobodyAsks) {
  TemporaryDirectory root;
  const auto file = root.path() / "file";
  const auto write = [file](ByteSpan, std::vector<Descriptor>&) { return write_durably(file, {}); };
  {
    auto first = Errand::prepare(write), second = Errand::prepare(write);
    *first = std::move(*second);  // the first one's process ends here, that of the second below
  }
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_TRUE(has_no_children());
}

TEST(Errand, TakesNoMoreThanItCan) {
  auto errand = Errand::prepare([](ByteSpan content, std::vector<Descriptor>&) -> Status {
    return content.size() == Errand::kMostContent - 1 ? Status() : fail(Errc::failed, "cut");
  });
  EXPECT_FALSE(errand->run(Bytes(Errand::kMostContent)));
  EXPECT_TRUE(errand->run(Bytes(Errand::kMostContent - 1)));
}

}  // namespace
}  // namespace s3oram
