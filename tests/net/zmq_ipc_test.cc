// Tests that only the process's own uid may connect over unix sockets.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <zmq.hpp>

#include "oramcore/zmq/zmq_transport.h"
#include "tests/base/temporary_directory.h"
#include "tests/net/zmq_net.h"

namespace s3oram {
namespace {

using testing::Net;
using testing::question;

constexpr uid_t kSomebodyElse = 65534;
enum Outcome { kGreeted = 10, kRefused = 11, kCannotConnect = 12, kCannotBecome = 13 };

// Connects as `uid` in a process of its own. Before anything else, ZeroMQ greets those it admits.
Outcome connect_as(uid_t uid, const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() != uid && ::setuid(uid) != 0) ::_exit(kCannotBecome);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      ::_exit(kCannotConnect);
    char byte = 0;
    ::_exit(::read(fd, &byte, 1) == 1 ? kGreeted : kRefused);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return static_cast<Outcome>(WEXITSTATUS(status));
}

TEST(Ipc, OnlyOurUidMayConnect) {
  const WorkingDirectory folder;
  Net net(Net::Link::ipc, 1);
  net.start(1);
  EXPECT_EQ(connect_as(::geteuid(), "1.sock"), kGreeted);
  // Only root can become another uid. File permissions are opened to it, so that only the check of
  // the uid remains.
  const Outcome expected = ::geteuid() == 0 ? kRefused : kCannotBecome;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod("1.sock", 0777), 0);
  EXPECT_EQ(connect_as(kSomebodyElse, "1.sock"), expected);
}

TEST(Ipc, PartiesWithoutANumberAreNotHeard) {
  const WorkingDirectory folder;
  Net net(Net::Link::ipc, 2);
  net.start(1);
  zmq::context_t context;
  const std::string number_9 =
      "\x89"
      "12345678";
  for (const std::string& id : {std::string("\x82"), number_9, std::string("client")}) {
    zmq::socket_t stranger(context, zmq::socket_type::dealer);
    stranger.set(zmq::sockopt::linger, -1);
    stranger.set(zmq::sockopt::routing_id, id);
    stranger.connect("ipc://1.sock");
    stranger.send(zmq::buffer(question("hello")), zmq::send_flags::none);
  }
  // When ZeroMQ has nothing left to deliver, server 1 has read and dropped all three.
  context.close();
  net.start(2);
  ASSERT_TRUE(net.ask(2, 1, "known"));
  for (const auto& received : net.node(1).received) EXPECT_EQ(received.message, question("known"));
}

TEST(Ipc, WhatIsNoSocketIsNotReplaced) {
  const WorkingDirectory folder;
  std::ofstream("1.sock") << "precious";
  asio::io_context io;
  const auto transport = make_zmq_transport(io.get_executor(), Net(Net::Link::ipc, 1).config(1));
  ASSERT_FALSE(transport);
  EXPECT_EQ(transport.error().code, Errc::exists);
  std::string content;
  std::ifstream("1.sock") >> content;
  EXPECT_EQ(content, "precious");
}

TEST(Ipc, ASocketLeftBehindIsReplaced) {
  const WorkingDirectory folder;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, "1.sock");
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
  Net net(Net::Link::ipc, 1);
  net.start_all();
  EXPECT_TRUE(net.ask(kClient, 1, "hello"));
}

}  // namespace
}  // namespace s3oram
