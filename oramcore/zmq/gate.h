// Listens at a server's TCP port in place of ZeroMQ, which does not limit strangers. ZeroMQ sees a
// connection only once it has begun CURVE's handshake with this server's key.
//
// A new connection waits among the silent ones until the gate has read its greeting and its HELLO.
// A HELLO shows that the other side knows the server's public key. The connection then waits among
// those that have knocked, and the gate connects to ZeroMQ over a unix socket. It passes on the
// commands of the handshake one by one, none longer than 1 KiB, until ZeroMQ answers READY, which
// means that the other side's key is admitted. From then on the gate passes bytes on, and checks
// only the sizes of frames. So strangers can make the server hold at most a few hundred small
// records and sockets.
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

/// Returns an address that stands for all those that one stranger easily has: an IPv4 address for
/// itself, and the first address of its /48 for an IPv6 one, because providers give out whole /56
/// and /48.
asio::ip::address crowd_of(const asio::ip::address& address);

/// Connections that are not admitted yet: at most `most` in all, and `most_of_one` from one
/// network. A further one replaces the oldest of its own network if that has its share already.
/// Otherwise, in a full room, it replaces the oldest of the largest crowd. So a stranger with a few
/// addresses displaces only itself. One executor; not thread-safe.
class WaitingRoom {
 public:
  WaitingRoom(std::size_t most, std::size_t most_of_one) : most_(most), of_one_(most_of_one) {}
  /// Returns the address of the connection that was closed; empty if there was none.
  std::string enter(Visit& visit);
  void leave(Visit& visit);
  /// Makes room in the same way as for a newcomer.
  void close_one();

 private:
  Visit* oldest_of(const Network& network) const;
  Visit* oldest_of_largest_crowd() const;

  const std::size_t most_, of_one_;
  std::list<Visit*> visits_;  // the oldest first
};

struct GateLimits {
  std::size_t silent = 256, silent_of_one = 64;     // have not sent a HELLO
  std::size_t knocking = 64, knocking_of_one = 16;  // have sent a HELLO
  std::chrono::milliseconds patience{3'000};        // time from the connection to READY
};

class Gate {
 public:
  /// Listens at `endpoint`, a result of parse_endpoint(), and passes connections on to ZeroMQ at
  /// the abstract unix socket `inner`. The work is done on a separate thread. Throws
  /// std::system_error.
  Gate(const std::string& endpoint, std::string inner, const KeyPair& keys,
       std::vector<Network> allowed, const GateLimits& limits = {});
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Returns the endpoint in the form of parse_endpoint(), with the port that was chosen for "*".
  const std::string& endpoint() const { return endpoint_; }
  /// Closes connections that send a longer message. Any thread.
  void limit_messages(std::size_t largest) { largest_message_ = largest; }
  /// Returns the ADDRESS:PORT of the connection whose key ZeroMQ is asking about; only one
  /// connection at a time is at this step. Any thread.
  std::string being_judged() const;

 private:
  Task<void> accept_all();
  Task<void> serve(std::shared_ptr<Visit> visit);
  /// Returns whether the connection is admitted.
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
