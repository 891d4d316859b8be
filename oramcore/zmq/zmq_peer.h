// Our connection to one server: a DEALER socket and its state.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <zmq.hpp>

#include "oramcore/zmq/zmq_socket.h"
#include "oramcore/zmq/zmq_transport.h"

namespace s3oram {

/// On an ipc link, the routing id says who a party is: a byte with this bit and the party's number,
/// followed by kIpcNonce random bytes. It is trusted because the uid is ours. (ZeroMQ's own ids
/// begin with 0.)
inline constexpr std::uint8_t kIpcParty = 0x80;
inline constexpr std::size_t kIpcNonce = 8;

/// Must be used only on the executor, and held by a shared_ptr.
class ZmqPeer : public std::enable_shared_from_this<ZmqPeer> {
 public:
  using Handler = std::function<void(zmq::message_t& message)>;
  using Connected = std::function<void()>;

  /// `context` must outlive this object.
  ZmqPeer(zmq::context_t& context, Executor executor, PeerAddress address, Party self,
          const KeyPair& keys, std::size_t largest_message, Handler handler, Connected connected);
  ~ZmqPeer();

  /// Connects, now and whenever the connection is lost. Throws zmq::error_t.
  void open();
  void close();
  bool send(Bytes message) { return dealer_ && dealer_->send(std::move(message)); }
  PeerState state() const { return state_; }
  /// Returns when the state last changed.
  std::chrono::steady_clock::time_point since() const { return since_; }

 private:
  zmq::socket_t make_dealer();
  zmq::socket_t make_monitor(zmq::socket_t& dealer);
  void on_event(std::uint16_t event);
  void become(PeerState state);
  void reopen_later();

  zmq::context_t& context_;
  Executor executor_;
  PeerAddress address_;
  Party self_;
  KeyPair keys_;
  std::size_t largest_message_;
  Handler handler_;
  Connected connected_;
  PeerState state_ = PeerState::connecting;
  // The time since which the server closes connections before the handshake finishes; std::nullopt
  // if it does not.
  std::optional<std::chrono::steady_clock::time_point> broken_off_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::shared_ptr<ZmqSocket> dealer_;
  std::shared_ptr<ZmqSocket> monitor_;
  asio::steady_timer reopen_;
};

}  // namespace s3oram
