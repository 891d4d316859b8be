// Tests the form of log lines for the journal and for people.
#include "oramcore/service/log.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace s3oram {
namespace {

/// While this object lives, standard error is a file.
class StderrFile {
 public:
  StderrFile() : file_(std::tmpfile()), before_(::dup(STDERR_FILENO)) {
    EXPECT_GE(::dup2(::fileno(file_), STDERR_FILENO), 0);
  }
  ~StderrFile() {
    ::unsetenv("JOURNAL_STREAM");
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    std::fclose(file_);
  }
  /// Marks it as the journal, as systemd does, with `more` added to its number.
  void be_journal(ino_t more = 0) const {
    struct stat file {};
    EXPECT_EQ(::fstat(STDERR_FILENO, &file), 0);
    ::setenv("JOURNAL_STREAM", fmt::format("{}:{}", file.st_dev, file.st_ino + more).c_str(), 1);
  }
  std::string text() const {
    std::string all(4096, '\0');
    const ssize_t size = ::pread(::fileno(file_), all.data(), all.size(), 0);
    all.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return all;
  }

 private:
  std::FILE* file_;
  int before_;
};

TEST(Log, HasPrioritiesForTheJournal) {
  const StderrFile file;
  file.be_journal();
  EXPECT_TRUE(stderr_is_journal());
  log_to_stderr("test");
  spdlog::set_level(spdlog::level::debug);
  spdlog::debug("a {}", 1);
  spdlog::info("b");
  spdlog::warn("c");
  spdlog::error("d");
  spdlog::critical("e");
  spdlog::default_logger()->flush();
  EXPECT_EQ(file.text(), "<7>a 1\n<6>b\n<4>c\n<3>d\n<2>e\n");
}

TEST(Log, HasTimeStampsForPeople) {
  const StderrFile file;
  file.be_journal(1);  // a file other than standard error
  EXPECT_FALSE(stderr_is_journal());
  log_to_stderr("test");
  log_to_stderr("test");  // calling it again changes nothing
  spdlog::warn("something");
  spdlog::default_logger()->flush();
  const std::string text = file.text();
  EXPECT_EQ(text.front(), '[');
  EXPECT_NE(text.find("[test] [warning] something\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace s3oram
