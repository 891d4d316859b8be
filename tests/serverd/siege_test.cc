// Attacks a server over real sockets, as strangers can who have no key that it admits. The server's
// memory stays small, and its client is served all the time.
#include <gtest/gtest.h>
#include <sodium.h>
#include <sys/resource.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <list>
#include <sstream>
#include <thread>

#include "oramcore/protocol/messages.h"
#include "oramcore/zmq/zmq_transport.h"
#include "oramcore/zmq/zmtp.h"
#include "tests/base/temporary_directory.h"
#include "tests/serverd/oram/strangers.h"
#include "tests/serverd/running_server.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using test::RunningServer;

constexpr std::size_t kMostMemory = 200 << 20;
constexpr auto kMostWait = 10s;  // how long the client waits for an answer
constexpr int kCrowd = 10'000;

std::string first_line(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "re");
  char line[256] = "";
  EXPECT_NE(std::fgets(line, sizeof line, pipe), nullptr) << command;
  ::pclose(pipe);
  return std::string(line).substr(0, std::string(line).find('\n'));
}

std::size_t memory_of(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6)) << 10;
  return 0;
}

const std::string& greeting() {
  static const auto bytes = zmtp::curve_greeting();
  static const std::string text(bytes.begin(), bytes.end());
  return text;
}

/// A HELLO from a client that knows the server's public key, which is not secret.
std::string hello(const PublicKey& server) {
  const KeyPair own = generate_key_pair();
  std::string bucket_version("\x04\xc8\x05HELLO\x01\x00", 10);
  bucket_version.resize(2 + zmtp::kHelloKey);
  bucket_version.append(own.public_key.begin(), own.public_key.end());
  const std::string nonce_end(8, '\x01');
  bucket_version += nonce_end;
  const std::string nonce = "CurveZMQHELLO---" + nonce_end;
  const std::array<std::uint8_t, 64> zeros{};
  std::array<std::uint8_t, 80> box{};
  EXPECT_EQ(::crypto_box_easy(box.data(), zeros.data(), zeros.size(),
                              reinterpret_cast<const std::uint8_t*>(nonce.data()), server.data(),
                              own.secret_key.data()),
            0);
  bucket_version.append(box.begin(), box.end());
  return bucket_version;
}

/// The header of a long command.
std::string long_command(std::uint64_t size) {
  std::string header(1, '\x06');
  for (int shift = 56; shift >= 0; shift -= 8) header += static_cast<char>(size >> shift);
  return header;
}

class Siege : public ::testing::Test {
 protected:
  Siege() {
    rlimit limit{};
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    most_open_ = std::min<std::size_t>(kCrowd, limit.rlim_cur - 100);
    key_ = *parse_public_key(first_line("'" SERVERD "' keygen --store store"));
    first_line("'" SERVERD "' authorize --store store " + to_text(client_.public_key) + "; echo");
    server_.emplace("--store store --index 1 --listen 127.0.0.1:* --log-level info 2>log");
    std::ifstream log("log");
    std::ostringstream text;
    text << log.rdbuf();
    const std::string said = text.str(), before = "tcp://127.0.0.1:";
    const auto at = said.find(before);
    EXPECT_NE(at, std::string::npos) << said;
    endpoint_ = said.substr(at, said.find('\n', at) - at);
    address_ = {asio::ip::address_v4::loopback(),
                static_cast<std::uint16_t>(std::stoul(endpoint_.substr(before.size())))};
  }

  /// Runs `attack` while the client sends requests again and again, on its one connection and on
  /// new ones.
  void withstand(const std::function<void()>& attack) {
    std::atomic<bool> over = false;
    std::thread attacker([&] {
      attack();
      over = true;
    });
    unsigned answers = 0;
    Client lasting(*this);
    EXPECT_TRUE(lasting.is_answered());
    while (!over) {
      EXPECT_TRUE(lasting.is_answered()) << "after " << answers << " answers";
      weigh();
      ++answers;
      if (HasFailure()) break;
    }
    attacker.join();
    weigh();
    EXPECT_LT(most_memory_, kMostMemory);
    EXPECT_GT(most_memory_, 1u << 20);  // the memory is this server's, and it is alive
    RecordProperty("most_memory_mib", static_cast<int>(most_memory_ >> 20));
    EXPECT_TRUE(Client(*this).is_answered());
  }
  void weigh() { most_memory_ = std::max(most_memory_, memory_of(server_->pid())); }

  Tcp::socket connect() {
    Tcp::socket socket(io_);
    error_code error;
    socket.connect(address_, error);
    EXPECT_FALSE(error) << error.message();
    return socket;
  }
  /// Returns false if the server has closed the connection.
  static bool send(Tcp::socket& socket, const std::string& bytes) {
    error_code error;
    asio::write(socket, asio::buffer(bytes), error);
    return !error;
  }
  static void send_until_closed(Tcp::socket& socket, const std::string& bytes, std::size_t most) {
    for (std::size_t sent = 0; sent < most && send(socket, bytes);) sent += bytes.size();
  }
  /// Reads `count` bytes. Returns false if they do not come.
  static bool receive(Tcp::socket& socket, std::size_t count) {
    std::string bytes(count, '\0');
    error_code error;
    asio::read(socket, asio::buffer(bytes), error);
    return !error;
  }

  class Client {
   public:
    explicit Client(const Siege& siege) {
      ZmqConfig config;
      config.keys = siege.client_;
      config.peers = {{1, siege.endpoint_, siege.key_}};
      transport_ = *make_zmq_transport(io_.get_executor(), config);
      transport_->on_message([this](Party, const Bytes&) { ++answers_; });
    }
    bool is_answered() {
      const unsigned before = answers_;
      const auto limit = std::chrono::steady_clock::now() + kMostWait;
      auto again = std::chrono::steady_clock::now();
      while (answers_ == before) {
        const auto now = std::chrono::steady_clock::now();
        if (now >= limit) return false;
        if (now >= again) {
          transport_->send(1, test::request(++number_, HelloRequest{}));
          again = now + 250ms;
        }
        io_.restart();
        io_.run_one_for(50ms);
      }
      return true;
    }

   private:
    asio::io_context io_;
    std::unique_ptr<ZmqTransport> transport_;
    std::uint64_t number_ = 0;
    unsigned answers_ = 0;
  };

  WorkingDirectory folder_;
  asio::io_context io_;
  KeyPair client_ = generate_key_pair();
  PublicKey key_{};
  std::optional<RunningServer> server_;
  std::string endpoint_;
  Tcp::endpoint address_;
  std::size_t most_open_ = 0;
  std::size_t most_memory_ = 0;
};

TEST_F(Siege, OfLongCommandsBeforeTheHandshake) {
  withstand([&] {
    std::list<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        Tcp::socket socket = connect();
        send(socket, greeting());
        receive(socket, zmtp::kGreeting);
        send(socket, long_command(200 << 20));
        send_until_closed(socket, std::string(1 << 20, 'A'), 200 << 20);
      });
    for (auto& thread : threads) thread.join();
  });
}

TEST_F(Siege, OfLongCommandsInTheHandshake) {
  withstand([&] {
    std::list<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        Tcp::socket socket = connect();
        send(socket, greeting() + hello(key_));
        // The server sends its greeting and a WELCOME, as it would to a client.
        EXPECT_TRUE(receive(socket, zmtp::kGreeting + 2 + 168));
        send(socket, long_command(200 << 20));
        send_until_closed(socket, std::string(1 << 20, 'A'), 200 << 20);
      });
    for (auto& thread : threads) thread.join();
  });
}

TEST_F(Siege, OfACrowdThatSaysLittle) {
  withstand([&] {
    std::list<Tcp::socket> held;
    for (int i = 0; i < kCrowd; ++i) {
      Tcp::socket& socket = held.emplace_back(connect());
      send(socket, i % 3 == 0 ? "" : i % 3 == 1 ? greeting() + "\x04" : greeting().substr(0, 11));
      if (held.size() >= most_open_) held.pop_front();
    }
  });
}

TEST_F(Siege, OfACrowdThatKnowsTheServersKey) {
  withstand([&] {
    const std::string opening = greeting() + hello(key_);
    std::list<Tcp::socket> held;
    for (int i = 0; i < 2000; ++i) send(held.emplace_back(connect()), opening);
    for (Tcp::socket& socket : held) send(socket, long_command(300) + std::string(300, 'B'));
  });
}

TEST_F(Siege, OfATrickle) {
  withstand([&] {
    std::list<Tcp::socket> held;
    for (int i = 0; i < 60; ++i) held.push_back(connect());
    const std::string text = greeting() + hello(key_) + long_command(1000) + std::string(1000, 'C');
    // A handshake ends after 3 s, however much is sent in it.
    const auto begun = std::chrono::steady_clock::now();
    std::size_t at = 0;
    for (; !held.empty(); ++at) {
      held.remove_if([&](Tcp::socket& one) { return !send(one, text.substr(at, 1)); });
      std::this_thread::sleep_for(20ms);
      if (at + 1 == text.size()) break;
    }
    EXPECT_TRUE(held.empty());
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 10s);
  });
}

TEST_F(Siege, OfGarbage) {
  withstand([&] {
    Prg random(Seed{7}, as_bytes("garbage"));
    for (int i = 0; i < 500; ++i) {
      std::string noise(static_cast<std::size_t>(i) * 37, '\0');
      random.fill({reinterpret_cast<std::uint8_t*>(noise.data()), noise.size()});
      Tcp::socket socket = connect();
      send(socket, i % 2 ? greeting() + noise : noise);
    }
  });
}

}  // namespace
}  // namespace s3oram
