// Tests the gate before a server's port: the addresses that it admits, and the frames that it
// passes on.
#include "oramcore/zmq/gate.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <fstream>
#include <zmq_addon.hpp>

#include "oramcore/zmq/allow_list.h"
#include "oramcore/zmq/zap.h"
#include "oramcore/zmq/zmtp.h"
#include "tests/base/temporary_directory.h"
#include "tests/net/zmq_net.h"

namespace s3oram {
namespace {

using testing::Net;
using testing::question;

bool allows(const std::string& network, const std::string& address) {
  const auto parsed = parse_network(network);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return is_allowed({*parsed}, asio::ip::make_address(address));
}

TEST(AllowList, HoldsAddressesAndNetworks) {
  EXPECT_TRUE(allows("192.0.2.7", "192.0.2.7"));
  EXPECT_FALSE(allows("192.0.2.7", "192.0.2.8"));
  EXPECT_TRUE(allows("192.0.2.0/24", "192.0.2.255"));
  EXPECT_FALSE(allows("192.0.2.0/24", "192.0.3.0"));
  EXPECT_TRUE(allows("0.0.0.0/0", "8.8.8.8"));
  EXPECT_FALSE(allows("0.0.0.0/0", "2001:db8::1"));
  EXPECT_TRUE(allows("2001:db8::/32", "2001:db8:ffff::1"));
  EXPECT_FALSE(allows("2001:db8::/32", "2001:db9::1"));
  EXPECT_TRUE(allows("2001:db8::1", "2001:db8::1"));
  EXPECT_FALSE(allows("2001:db8::1", "2001:db8::2"));
  // A socket that listens for both kinds sees IPv4 addresses as IPv6 ones.
  EXPECT_TRUE(allows("192.0.2.0/24", "::ffff:192.0.2.9"));
  EXPECT_FALSE(allows("192.0.2.0/24", "::ffff:198.51.100.1"));
  EXPECT_TRUE(is_allowed({}, asio::ip::make_address("8.8.8.8")));
  EXPECT_TRUE(is_allowed({*parse_network("10.0.0.0/8"), *parse_network("::1")},
                         asio::ip::make_address("::1")));
}

TEST(AllowList, RefusesWhatIsNoNetwork) {
  for (const char* text : {"", "a.example", "192.0.2", "192.0.2.0/33", "192.0.2.0/", "192.0.2.0/-1",
                           "192.0.2.0/2x", "2001:db8::/129", "/8", "192.0.2.1:80", "fe80::1%lo"}) {
    const auto parsed = parse_network(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Errc::usage);
    EXPECT_NE(parsed.error().message.find("give an address or a network"), std::string::npos);
  }
  const auto slip = parse_network("192.0.2.7/24");
  ASSERT_FALSE(slip);
  EXPECT_NE(slip.error().message.find("write 192.0.2.0/24"), std::string::npos)
      << slip.error().message;
}

TEST(FrameWatch, FindsFramesHoweverTheyAreCut) {
  const Bytes stream{0, 2, 7, 7, 2, 0, 0, 0, 0, 0, 0, 0, 3, 9, 9, 9, 4, 0, 1, 1, 5};
  for (std::size_t cut = 1; cut <= stream.size(); ++cut) {
    zmtp::FrameWatch frames, narrow;
    bool fits = true, fits_narrow = true;
    for (std::size_t at = 0; at < stream.size(); at += cut) {
      const ByteSpan part = ByteSpan(stream).subspan(at, std::min(cut, stream.size() - at));
      fits = fits && frames.take(part, 3);
      fits_narrow = fits_narrow && narrow.take(part, 2);
    }
    EXPECT_TRUE(fits) << cut;
    EXPECT_FALSE(fits_narrow) << cut;
  }
}

class GateTest : public ::testing::Test {
 protected:
  WorkingDirectory folder_;
  Net net_{Net::Link::tcp, 2};
};

TEST_F(GateTest, AnAddressThatIsNotAllowedIsNotHeard) {
  ZmqConfig config = net_.config(1);
  config.allow = {*parse_network("192.0.2.0/24")};
  net_.start(1, config);
  net_.start(2);
  net_.start(kClient);
  ASSERT_TRUE(net_.ask(kClient, 2, "the other one"));
  EXPECT_NE(net_.node(kClient).transport->state(1), PeerState::connected);
  const auto port = config.listen.substr(config.listen.rfind(':') + 1);
  asio::ip::tcp::socket socket(net_.io());
  socket.connect({asio::ip::address_v4::loopback(), static_cast<unsigned short>(std::stoi(port))});
  std::array<char, 1> byte{};
  boost::system::error_code error;
  asio::read(socket, asio::buffer(byte), error);
  EXPECT_TRUE(error);  // not even a greeting

  config.allow.push_back(*parse_network("127.0.0.0/8"));
  net_.start(1, config);
  EXPECT_TRUE(net_.ask(kClient, 1, "from here"));
}

TEST_F(GateTest, TheLimitOfMessagesFollowsTheVolume) {
  ZmqConfig config = net_.config(1);
  config.largest_message = 1000;
  net_.start(1, config);
  net_.start(kClient);
  ASSERT_TRUE(net_.ask(kClient, 1, std::string(999, 'x')));
  net_.node(kClient).transport->send(1, question(std::string(100'000, 'y')));
  ASSERT_TRUE(net_.ask(kClient, 1, "after"));
  for (const auto& received : net_.node(1).received) EXPECT_LE(received.message.size(), 1000u);
  // The longer message is accepted on the same connection.
  const unsigned connections = net_.node(kClient).connections[1];
  net_.node(1).transport->limit_messages(100'001);
  EXPECT_TRUE(net_.ask(kClient, 1, std::string(100'000, 'z')));
  EXPECT_EQ(net_.node(kClient).connections[1], connections);
}

// An impostor in a server's place does not have its key, but the client connects to it.
TEST_F(GateTest, AClientTakesNoLongCommandFromALyingServer) {
  const std::string listen = net_.config(1).listen;
  asio::io_context io;
  asio::ip::tcp::acceptor liar(
      io, {asio::ip::address_v4::loopback(),
           static_cast<unsigned short>(std::stoi(listen.substr(listen.rfind(':') + 1)))});
  std::atomic<bool> over = false;
  std::size_t taken = 0;
  std::thread lies([&] {
    asio::ip::tcp::socket socket = liar.accept();
    boost::system::error_code error;
    const auto greeting = zmtp::curve_greeting();
    asio::write(socket, asio::buffer(greeting), error);
    const std::string header("\x06\0\0\0\0\x0c\x80\0\0", 9);  // 200 MiB follow
    asio::write(socket, asio::buffer(header), error);
    const std::string piece(1 << 20, 'A');
    while (!error && taken < 200 << 20) taken += asio::write(socket, asio::buffer(piece), error);
    over = true;
  });
  ZmqConfig config = net_.config(kClient);
  config.largest_message = kLargestWithoutVolume;
  net_.start(kClient, config);
  EXPECT_TRUE(net_.run_until([&] { return over.load(); }));
  lies.join();
  EXPECT_LT(taken, 16u << 20);  // as much as the kernel's buffers hold
}

// The threads that a listener and a client start: ZAP's, the gate's, ZeroMQ's.
TEST_F(GateTest, ItsThreadsTakeNoSignals) {
  const auto threads = [] {
    std::set<std::string> all;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
      all.insert(task.path());
    return all;
  };
  const auto before = threads();
  net_.start(1);
  net_.start(kClient);
  ASSERT_TRUE(net_.ask(kClient, 1, "they run"));
  unsigned seen = 0;
  for (const auto& thread : threads()) {
    if (before.contains(thread)) continue;
    std::ifstream status(thread + "/status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;
      ++seen;
      const auto blocked = std::stoull(line.substr(7), nullptr, 16);
      for (const int signal : {SIGHUP, SIGTERM, SIGINT, SIGUSR1, SIGCHLD, SIGPIPE})
        EXPECT_TRUE(blocked >> (signal - 1) & 1) << thread << " takes signal " << signal;
    }
  }
  EXPECT_GE(seen, 5u);  // ZAP, the gate, and ZeroMQ's
}

TEST(WaitingRoom, OneStrangerHasOneCrowd) {
  const auto crowd = [](const char* address) { return crowd_of(asio::ip::make_address(address)); };
  EXPECT_EQ(crowd("2001:db8:1:2::3"), crowd("2001:db8:1:ff::4"));
  EXPECT_NE(crowd("2001:db8:1::1"), crowd("2001:db8:2::1"));
  EXPECT_NE(crowd("192.0.2.1"), crowd("192.0.2.2"));
  EXPECT_EQ(crowd("::ffff:192.0.2.1"), crowd("192.0.2.1"));
}

// A stranger with three addresses fills the room many times over. One connection from elsewhere,
// the oldest of all, stays: its 1 is fewer than the 5 of each of the others.
TEST(WaitingRoom, StrangersDisplaceEachOther) {
  GateLimits limits;
  limits.silent = 16;
  limits.silent_of_one = 8;
  limits.patience = std::chrono::minutes(10);
  const Gate gate("tcp://127.0.0.1:*", "unused", generate_key_pair(), {}, limits);
  const auto port = static_cast<unsigned short>(
      std::stoi(gate.endpoint().substr(gate.endpoint().rfind(':') + 1)));
  asio::io_context io;
  zmtp::Greeting greeting;
  // The gate greets a connection once it is in the room, and the one that had to go is closed.
  const auto visit = [&](const char* from) {
    asio::ip::tcp::socket socket(io);
    socket.open(asio::ip::tcp::v4());
    socket.bind({asio::ip::make_address(from), 0});
    socket.connect({asio::ip::address_v4::loopback(), port});
    asio::read(socket, asio::buffer(greeting));
    return socket;
  };
  const auto is_open = [](asio::ip::tcp::socket& socket) {
    socket.non_blocking(true);
    std::array<char, 1> byte{};
    boost::system::error_code error;
    socket.read_some(asio::buffer(byte), error);
    return error == asio::error::would_block;
  };
  auto first = visit("127.0.0.1");
  std::vector<asio::ip::tcp::socket> strangers;
  for (int i = 0; i < 20; ++i)
    for (const char* from : {"127.0.1.1", "127.0.1.2", "127.0.1.3"})
      strangers.push_back(visit(from));
  EXPECT_TRUE(is_open(first));
  EXPECT_EQ(std::ranges::count_if(strangers, is_open), 15);
}

class ZapTest : public ::testing::Test {
 protected:
  ~ZapTest() override { context_.shutdown(); }

  std::vector<std::string> ask(zmq::socket_t& socket, const std::vector<std::string>& frames) {
    for (std::size_t i = 0; i < frames.size(); ++i)
      socket.send(zmq::buffer(frames[i]),
                  i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
    std::vector<zmq::message_t> answer;
    std::vector<std::string> texts;
    if (zmq::recv_multipart(socket, std::back_inserter(answer)))
      for (const auto& frame : answer) texts.push_back(frame.to_string());
    return texts;
  }
  std::vector<std::string> sound() const {
    return {"", "1.0", "7",     kZapDomain,
            "", "",    "CURVE", {known_.public_key.begin(), known_.public_key.end()}};
  }

  KeyPair known_ = generate_key_pair();
  zmq::context_t context_;
  ZapHandler zap_{context_, {{known_.public_key, Party{2}}}, [this]() -> std::string {
                    if (address_fails_) throw std::runtime_error("no address");
                    return "somewhere";
                  }};
  std::atomic<bool> address_fails_ = false;
};

// Requests come from ZeroMQ. If one is malformed nevertheless, the next is still answered.
TEST_F(ZapTest, GoesOnAfterEveryError) {
  zmq::socket_t socket(context_, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::rcvtimeo, 10'000);
  socket.set(zmq::sockopt::linger, 0);
  socket.connect("inproc://zeromq.zap.01");
  const auto expect_served = [&] {
    const auto answer = ask(socket, sound());
    ASSERT_EQ(answer.size(), 7u);
    EXPECT_EQ(answer[1], "1.0");
    EXPECT_EQ(answer[2], "7");
    EXPECT_EQ(answer[3], "200");
    EXPECT_EQ(answer[5], ZapHandler::user_of(2, known_.public_key));
  };
  expect_served();

  socket.set(zmq::sockopt::rcvtimeo, 50);
  EXPECT_TRUE(ask(socket, {""}).empty());
  EXPECT_TRUE(ask(socket, {"x"}).empty());
  EXPECT_TRUE(ask(socket, {"", "1.0"}).empty());
  socket.set(zmq::sockopt::rcvtimeo, 10'000);
  for (std::size_t i = 1; i < sound().size(); ++i) {
    auto wrong = sound();
    wrong[i] = i == 2 ? wrong[i] : std::string(100'000, '\xff');
    if (i == 4 || i == 5 || i == 2) continue;  // any value is accepted
    const auto answer = ask(socket, wrong);
    ASSERT_EQ(answer.size(), 7u) << i;
    EXPECT_EQ(answer[3], "400") << i;
  }
  auto many = sound();
  many.resize(200, "x");
  EXPECT_EQ(ask(socket, many).at(3), "400");
  expect_served();

  address_fails_ = true;  // an exception in the thread
  auto unknown = sound();
  unknown.back()[0] ^= 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // exceeds the limit of warnings
  socket.set(zmq::sockopt::rcvtimeo, 500);
  EXPECT_TRUE(ask(socket, unknown).empty());
  socket.set(zmq::sockopt::rcvtimeo, 10'000);
  expect_served();
}

}  // namespace
}  // namespace s3oram
