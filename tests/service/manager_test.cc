// Tests the messages that a service manager gets, on a socket like systemd's.
#include "oramcore/service/manager.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <string>

#include "tests/base/temporary_directory.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// The manager's end. While it lives, this process is its service.
class Listener : public ::testing::Test {
 protected:
  Listener() {
    const std::string path = folder_ / "notify";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~Listener() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
    ::close(fd_);
  }

  /// Returns what was said within `patience`; empty if nothing was said.
  std::string heard(std::chrono::milliseconds patience = 10s) const {
    pollfd wanted{fd_, POLLIN, 0};
    if (::poll(&wanted, 1, static_cast<int>(patience.count())) != 1) return {};
    std::string text(4096, '\0');
    const ssize_t size = ::recv(fd_, text.data(), text.size(), 0);
    text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return text;
  }

  TemporaryDirectory folder_;
  int fd_ = -1;
};

TEST_F(Listener, HearsReadyAndStopping) {
  ServiceManager manager;
  EXPECT_FALSE(manager.patience());
  manager.ready("Serves");
  EXPECT_EQ(heard(), "READY=1\nSTATUS=Serves");
  manager.stopping();
  EXPECT_EQ(heard(), "STOPPING=1\nSTATUS=Stopping");
}

TEST_F(Listener, HearsNothingFromAProgramOfAnotherService) {
  ::setenv("WATCHDOG_USEC", "1000", 1);
  ServiceManager manager(ServiceManager::Whose::another);
  manager.ready("Serves");
  manager.stopping();
  EXPECT_FALSE(manager.patience());
  EXPECT_EQ(heard(0ms), "");
}

TEST_F(Listener, IsToldOfLifeByAnExecutorThatRuns) {
  ::setenv("WATCHDOG_USEC", "30000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  ServiceManager manager;
  EXPECT_EQ(manager.patience(), 30ms);
  boost::asio::io_context io;
  const Watchdog watchdog(io.get_executor(), manager);
  EXPECT_EQ(heard(), "WATCHDOG=1");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(heard(0ms), "");  // it does not run
    io.run_one();
    EXPECT_EQ(heard(), "WATCHDOG=1");
  }
}

TEST_F(Listener, IsNotToldWhereItDoesNotWatch) {
  ::setenv("WATCHDOG_USEC", "30000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getppid()).c_str(), 1);
  ServiceManager manager;
  EXPECT_FALSE(manager.patience());
  boost::asio::io_context io;
  const Watchdog watchdog(io.get_executor(), manager);
  EXPECT_EQ(io.run(), 0u);
  EXPECT_EQ(heard(0ms), "");
}

TEST(ServiceManager, IsNotNeeded) {
  ServiceManager manager;
  manager.ready("Serves");
  manager.stopping();
  EXPECT_FALSE(manager.patience());
}

TEST_F(Listener, WhoIsGoneStopsNobody) {
  ServiceManager manager;
  fs::remove(folder_ / "notify");
  manager.ready("Serves");
  EXPECT_EQ(heard(0ms), "");
}

}  // namespace
}  // namespace s3oram
