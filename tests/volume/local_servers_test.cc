// Tests that the servers of a local vault are started, restarted, reported on and stopped.
#include "oramcore/volume/local_servers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <thread>

#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class Local : public ::testing::Test {
 protected:
  fs::path store(unsigned number) const { return vault_ / "servers" / std::to_string(number); }
  void tell(unsigned number, const std::string& how) const {
    fs::create_directories(store(number));
    std::ofstream(store(number) / "how") << how;
  }
  static std::string read(const fs::path& file) {
    std::ifstream in(file);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  pid_t pid(unsigned number) const { return std::stoi(read(store(number) / "pid")); }
  Result<LocalServers> start(LocalServersPatience patience = {}) const {
    return LocalServers::start(FAKE_SERVER, vault_.path(), 3, patience);
  }
  static bool comes_true(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
  static bool exists(pid_t pid) { return ::kill(pid, 0) == 0; }

  TemporaryDirectory vault_;
};

TEST_F(Local, StartsAndStopsAll) {
  auto servers = start();
  ASSERT_TRUE(servers) << servers.error().message;
  for (unsigned number = 1; number <= 3; ++number) EXPECT_TRUE(servers->running(number));
  EXPECT_FALSE(servers->running(0));
  EXPECT_FALSE(servers->running(4));
  const auto stopped = servers->stop();
  EXPECT_TRUE(stopped) << stopped.error().message;
  for (unsigned number = 1; number <= 3; ++number) {
    EXPECT_FALSE(servers->running(number));
    EXPECT_FALSE(exists(pid(number)));
    EXPECT_EQ(read(store(number) / "stopped"), "well");
  }
  EXPECT_TRUE(servers->stop());
}

TEST_F(Local, TellsEachServerWhatItNeedsAndNoMore) {
  const int inherited = ::open("/dev/null", O_RDONLY);  // deliberately not close-on-exec
  auto servers = start();
  ASSERT_TRUE(servers) << servers.error().message;
  ::close(inherited);
  EXPECT_EQ(read(store(2) / "args"), "--store\n" + store(2).string() +
                                         "\n--index\n2\n--listen\nipc://2.sock\n"
                                         "--peer\n1=ipc://1.sock\n--peer\n3=ipc://3.sock\n"
                                         "--exit-with-parent\n--ready-fd\n3\n");
  EXPECT_EQ(read(store(2) / "cwd"), (vault_ / "run").string());
  // stdin, stdout, stderr and the pipe.
  EXPECT_EQ(read(store(2) / "fds"), "0 1 2 3 ");
  EXPECT_EQ(read(store(2) / "session"), "1");
  EXPECT_EQ(fs::status(vault_ / "run").permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(vault_ / "run" / "server-2.log").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_NE(read(vault_ / "run" / "server-2.log").find("hello"), std::string::npos);
}

TEST_F(Local, ReportsTheLastWordsOfAServerThatDoesNotStart) {
  fs::create_directories(vault_ / "run");
  std::ofstream(vault_ / "run" / "server-2.log") << "an old line\n";
  tell(2, "fails");
  const auto servers = start();
  ASSERT_FALSE(servers);
  EXPECT_EQ(servers.error().code, Errc::damaged_vault);
  for (const std::string part : {"server 2", "exit code 12", "the store is upside down",
                                 "server-2.log", "repair --server 2 "})
    EXPECT_NE(servers.error().message.find(part), std::string::npos) << servers.error().message;
  EXPECT_NE(read(vault_ / "run" / "server-2.log").find("an old line"), std::string::npos);
  // No process is left behind.
  for (unsigned number : {1U, 3U})
    if (fs::exists(store(number) / "pid")) {
      EXPECT_FALSE(exists(pid(number)));
    }
}

TEST_F(Local, GivesUpOnAServerThatIsNeverReady) {
  tell(3, "never-ready");
  const auto servers = start({500ms, 20s});
  ASSERT_FALSE(servers);
  EXPECT_EQ(servers.error().code, Errc::unreachable);
  EXPECT_NE(servers.error().message.find("server 3 did not start in time"), std::string::npos)
      << servers.error().message;
  EXPECT_FALSE(exists(pid(3)));
}

TEST_F(Local, SaysThatTheProgramIsMissing) {
  const auto servers = LocalServers::start(vault_ / "no-such-program", vault_.path(), 3);
  ASSERT_FALSE(servers);
  EXPECT_NE(servers.error().message.find("no-such-program"), std::string::npos);
}

TEST_F(Local, KillsAServerThatDoesNotStop) {
  tell(1, "ignores-term");
  auto servers = start({20s, 200ms});
  ASSERT_TRUE(servers) << servers.error().message;
  const auto stopped = servers->stop();
  ASSERT_FALSE(stopped);
  EXPECT_NE(stopped.error().message.find("server 1 did not stop cleanly (signal 9)"),
            std::string::npos)
      << stopped.error().message;
  EXPECT_FALSE(exists(pid(1)));
  EXPECT_EQ(read(store(3) / "stopped"), "well");
}

TEST_F(Local, ReportsAServerThatEndsBadly) {
  tell(3, "ends-badly");
  auto servers = start();
  ASSERT_TRUE(servers) << servers.error().message;
  const auto stopped = servers->stop();
  ASSERT_FALSE(stopped);
  for (const std::string part : {"server 3", "exit code 21", "could not write"})
    EXPECT_NE(stopped.error().message.find(part), std::string::npos) << stopped.error().message;
}

TEST_F(Local, StartsAServerAgainThatDied) {
  auto servers = start();
  ASSERT_TRUE(servers) << servers.error().message;
  for (unsigned times = 1; times <= 3; ++times) {
    const pid_t before = pid(2);
    ASSERT_EQ(::kill(before, SIGKILL), 0);
    ASSERT_TRUE(comes_true([&] { return servers->restarts(2) == times && servers->running(2); }));
    EXPECT_NE(pid(2), before);
    EXPECT_FALSE(exists(before));
  }
  EXPECT_EQ(servers->restarts(1), 0U);
  EXPECT_TRUE(servers->running(1));
  const auto stopped = servers->stop();
  EXPECT_TRUE(stopped) << stopped.error().message;
  EXPECT_EQ(read(store(2) / "stopped"), "well");
}

TEST_F(Local, AServerThatAlwaysDiesIsStartedLessAndLessOften) {
  tell(1, "dies");
  auto servers = start({20s, 20s, 1ms, 16ms});
  ASSERT_TRUE(servers) << servers.error().message;
  ASSERT_TRUE(comes_true([&] { return servers->restarts(1) > 6; }));
  EXPECT_TRUE(servers->running(2));
}

TEST_F(Local, ReportsAServerThatWasNotRunningAtTheEnd) {
  auto servers = start({20s, 20s, 10min, 10min});
  ASSERT_TRUE(servers) << servers.error().message;
  ASSERT_EQ(::kill(pid(1), SIGKILL), 0);
  ASSERT_TRUE(comes_true([&] { return !servers->running(1); }));
  const auto stopped = servers->stop();
  ASSERT_FALSE(stopped);
  EXPECT_NE(stopped.error().message.find("server 1 did not stop cleanly (signal 9)"),
            std::string::npos)
      << stopped.error().message;
}

TEST_F(Local, AServerThatDoesNotStartAgainDoesNotHoldUpTheEnd) {
  auto servers = start();
  ASSERT_TRUE(servers) << servers.error().message;
  tell(3, "never-ready");
  ASSERT_EQ(::kill(pid(3), SIGKILL), 0);
  ASSERT_TRUE(comes_true([&] { return servers->restarts(3) == 1; }));
  EXPECT_FALSE(servers->running(3));
  EXPECT_TRUE(servers->running(2));
  const auto stopped = servers->stop();
  EXPECT_TRUE(stopped) << stopped.error().message;
}

TEST_F(Local, MovingKeepsThemAndDestructionStopsThem) {
  pid_t first = 0;
  {
    auto started = start();
    ASSERT_TRUE(started) << started.error().message;
    LocalServers moved = std::move(*started);
    first = pid(1);
    EXPECT_TRUE(moved.running(1));
  }
  EXPECT_FALSE(exists(first));
  EXPECT_EQ(read(store(1) / "stopped"), "well");
}

TEST_F(Local, StaleSocketsAreRemoved) {
  fs::create_directories(vault_ / "run");
  std::ofstream(vault_ / "run" / "2.sock") << "left behind";
  const auto servers = start();
  ASSERT_TRUE(servers) << servers.error().message;
  EXPECT_FALSE(fs::exists(vault_ / "run" / "2.sock"));
}

// A mount runs threads, and blocks signals in some of them.
TEST_F(Local, StartsFromAThreadWithBlockedSignals) {
  sigset_t every;
  sigset_t before;
  ::sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &before);
  auto servers = start();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(servers) << servers.error().message;
  EXPECT_TRUE(servers->stop());
}

TEST_F(Local, OutliveTheThreadThatAskedForThem) {
  std::optional<LocalServers> servers;
  std::thread([&] {
    auto started = start();
    ASSERT_TRUE(started) << started.error().message;
    servers.emplace(std::move(*started));
  }).join();
  ASSERT_TRUE(servers);
  for (unsigned number = 1; number <= 3; ++number) EXPECT_TRUE(servers->running(number));
  const auto stopped = servers->stop();
  EXPECT_TRUE(stopped) << stopped.error().message;
}

}  // namespace
}  // namespace s3oram
