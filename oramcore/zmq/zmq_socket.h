// One ZeroMQ socket on an Asio executor.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <span>
#include <zmq.hpp>

#include "oramcore/base/async.h"
#include "oramcore/base/bytes.h"
#include "oramcore/base/curve_keys.h"

namespace s3oram {

/// A socket with the options that all of ours share: nothing lingers, bounded queues, messages of
/// at most `largest` bytes, dead links noticed. Throws zmq::error_t.
zmq::socket_t open_zmq_socket(zmq::context_t& context, zmq::socket_type type, std::size_t largest);

/// Gives a TCP socket our keys, and the server's if it is to connect, and makes sure that ZeroMQ
/// will use them. Throws zmq::error_t.
void use_curve(zmq::socket_t& socket, const KeyPair& own, const PublicKey* server);

/// Hands over what arrives, and sends without ever waiting. Everything on the executor.
class ZmqSocket : public std::enable_shared_from_this<ZmqSocket> {
 public:
  /// The frames of one message, one or two of them; others are dropped unseen.
  using Handler = std::function<void(std::span<zmq::message_t> frames)>;

  ZmqSocket(Executor executor, zmq::socket_t socket, Handler handler);
  ~ZmqSocket();

  /// Starts to receive. The handler may destroy the socket's owner.
  void start();
  /// False: not sent, because nobody is connected or the queue is full.
  bool send(Bytes message);
  /// The same on a ROUTER, to the connection `to`.
  bool send(ByteSpan to, Bytes message);
  /// Closes; the handler is not called any more.
  void close();

  zmq::socket_t& socket() { return socket_; }

 private:
  void wait();
  void post_drain();
  void drain();
  bool receive();
  bool readable();
  bool send_frame(zmq::message_t& frame, int flags);

  zmq::socket_t socket_;
  asio::posix::stream_descriptor descriptor_;  // lent by ZeroMQ
  Handler handler_;
  bool draining_ = false;  // a drain runs or is posted: it will see what arrives
  bool waiting_ = false;   // the descriptor is waited for
};

}  // namespace s3oram
