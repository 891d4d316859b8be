// Stands before a server's TCP port: ZeroMQ, which has no bounds for strangers, sees a connection
// only once it has begun CURVE's handshake with this server's key.
//
// A connection comes in, and waits among the silent ones. Its greeting and its HELLO are read here.
// A HELLO shows that the other side knows the server's public key; the connection then waits among
// those that have knocked, and ZeroMQ is connected to over a unix socket. Commands of the handshake
// are passed on one by one, none longer than 1 KiB, until ZeroMQ says READY: it has found the other
// side's key admitted. From then on bytes are passed on, and only the sizes of frames are looked
// at. So what a stranger can make the server hold is a few hundred small records and sockets.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "oramcore/base/async.h"
#include "oramcore/base/bytes.h"
#include "oramcore/base/curve_keys.h"
#include "oramcore/base/error.h"
#include "oramcore/base/log_limit.h"
#include "oramcore/zmq/allow_list.h"

namespace s3oram {

class Visit;

/// Connections that are not admitted yet: so many in all, and of one network. One that comes too
/// many takes the place of the oldest, of its own network first, so that strangers crowd out each
/// other. One executor; not thread-safe.
class WaitingRoom {
 public:
  WaitingRoom(std::size_t most, std::size_t most_of_one) : most_(most), of_one_(most_of_one) {}
  /// Returns the address of the one that had to go; empty: none.
  std::string enter(Visit& visit);
  void leave(Visit& visit);
  void close_oldest();

 private:
  Visit* oldest_of(const Network& network) const;

  const std::size_t most_, of_one_;
  std::list<Visit*> visits_;  // the oldest first
};

struct GateLimits {
  std::size_t silent = 256, silent_of_one = 64;     // that have not sent a HELLO
  std::size_t knocking = 64, knocking_of_one = 16;  // that have
  std::chrono::milliseconds patience{3'000};        // from the connection to READY
};

class Gate {
 public:
  /// Listens at `endpoint`, as parse_endpoint returns it, and passes connections on to ZeroMQ at
  /// the abstract unix socket `inner`. A thread of its own does the work. Throws std::system_error.
  Gate(const std::string& endpoint, std::string inner, const KeyPair& keys,
       std::vector<Network> allowed, const GateLimits& limits = {});
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// As parse_endpoint would return it, with the port that "*" became.
  const std::string& endpoint() const { return endpoint_; }
  /// Connections that send a longer message are closed. Any thread.
  void limit_messages(std::size_t largest) { largest_message_ = largest; }
  /// Whose key ZeroMQ asks about at the moment, as ADDRESS:PORT: one connection at a time is at
  /// this step. Any thread.
  std::string being_judged() const;

 private:
  Task<void> accept_all();
  Task<void> serve(std::shared_ptr<Visit> visit);
  /// Whether it is admitted.
  Task<bool> handshake(Visit& visit);
  Task<bool> hear_hello(Visit& visit, Bytes& said);
  Task<bool> be_judged(Visit& visit);
  Task<void> pass_on_questions(std::shared_ptr<Visit> visit);
  bool is_for_us(ByteSpan hello) const;
  void judge(const std::string& address);
  void warn(const std::string& address, const char* why);

  const std::string inner_;
  const KeyPair keys_;
  const std::vector<Network> allowed_;
  const GateLimits limits_;
  std::string endpoint_;
  std::atomic<std::size_t> largest_message_;
  WaitingRoom silent_, knocking_;
  LogLimit warnings_;
  bool judging_ = false;
  mutable std::mutex mutex_;
  std::string being_judged_;  // under mutex_

  asio::io_context io_{1};
  Event judged_;
  asio::ip::tcp::acceptor acceptor_{io_};
  std::thread thread_;
};

}  // namespace s3oram
