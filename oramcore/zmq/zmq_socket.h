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

/// Opens a socket with the options that all our sockets share: no lingering, bounded queues,
/// messages of at most `largest` bytes, detection of dead links. Throws zmq::error_t.
zmq::socket_t open_zmq_socket(zmq::context_t& context, zmq::socket_type type, std::size_t largest);

/// Gives a TCP socket our keys, and the server's key if it connects. Makes sure that ZeroMQ will
/// use them. Throws zmq::error_t.
void use_curve(zmq::socket_t& socket, const KeyPair& own, const PublicKey* server);

/// Passes on the messages that arrive, and sends without ever waiting. Must be used only on the
/// executor.
class ZmqSocket : public std::enable_shared_from_this<ZmqSocket> {
 public:
  /// Receives the one or two frames of a message. A message with more frames is dropped.
  using Handler = std::function<void(std::span<zmq::message_t> frames)>;

  ZmqSocket(Executor executor, zmq::socket_t socket, Handler handler);
  ~ZmqSocket();

  /// Starts receiving. The handler may destroy the socket's owner.
  void start();
  /// Sends a message. Returns false if it was not sent because nobody is connected or the queue is
  /// full.
  bool send(Bytes message);
  /// Sends a message on a ROUTER, to the connection `to`.
  bool send(ByteSpan to, Bytes message);
  /// Closes the socket. The handler is not called again.
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
  asio::posix::stream_descriptor descriptor_;  // owned by ZeroMQ
  Handler handler_;
  bool draining_ = false;  // a drain runs or is posted, and will see new messages
  bool waiting_ = false;   // an async_wait on the descriptor is open
};

}  // namespace s3oram
