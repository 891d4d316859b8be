// Reads one ZeroMQ socket when its descriptor signals, without ever blocking the executor.
#include "oramcore/zmq/zmq_socket.h"

#include <array>
#include <cerrno>
#include <utility>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace s3oram {
namespace {

// The number of messages that are passed on before other work on the executor may run.
constexpr int kBatch = 64;
constexpr std::size_t kMostFrames = 2;
// Messages queued per connection; the senders' own limits are far below.
constexpr int kHighWaterMark = 1000;
// CURVE's nonce, tag and headers count against ZMQ_MAXMSGSIZE.
constexpr std::int64_t kSocketOverhead = 64;

constexpr int kReconnectFirstMs = 50;
constexpr int kReconnectLastMs = 1000;
constexpr int kConnectTimeoutMs = 5000;
constexpr int kHandshakeTimeoutMs = 3000;  // the same as the gate's
// On a slow link a heartbeat waits behind a large message, so its timeout is long. TCP notices a
// dead link sooner.
constexpr int kHeartbeatMs = 10'000;
constexpr int kHeartbeatTimeoutMs = 60'000;
constexpr int kTcpIdleS = 10;
constexpr int kTcpProbeS = 5;
constexpr int kTcpProbes = 3;
constexpr int kTcpUnackedMs = 20'000;

// A ZeroMQ thread frees a message once it is sent. ThreadSanitizer does not see how the message got
// to that thread, so it has to be told.
void give([[maybe_unused]] Bytes* bytes) {
#ifdef __SANITIZE_THREAD__
  __tsan_release(bytes);
#endif
}
void free_given(void*, void* bytes) {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(bytes);
#endif
  delete static_cast<Bytes*>(bytes);
}

zmq::message_t take(Bytes bytes) {
  auto owned = std::make_unique<Bytes>(std::move(bytes));
  zmq::message_t message(owned->data(), owned->size(), free_given, owned.get());
  give(owned.release());  // the message owns it now
  return message;
}

}  // namespace

zmq::socket_t open_zmq_socket(zmq::context_t& context, zmq::socket_type type, std::size_t largest) {
  zmq::socket_t socket(context, type);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, kHighWaterMark);
  socket.set(zmq::sockopt::rcvhwm, kHighWaterMark);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<std::int64_t>(largest) + kSocketOverhead);
  socket.set(zmq::sockopt::reconnect_ivl, kReconnectFirstMs);
  socket.set(zmq::sockopt::reconnect_ivl_max, kReconnectLastMs);
  socket.set(zmq::sockopt::connect_timeout, kConnectTimeoutMs);
  socket.set(zmq::sockopt::handshake_ivl, kHandshakeTimeoutMs);
  socket.set(zmq::sockopt::heartbeat_ivl, kHeartbeatMs);
  socket.set(zmq::sockopt::heartbeat_timeout, kHeartbeatTimeoutMs);
  socket.set(zmq::sockopt::heartbeat_ttl, kHeartbeatTimeoutMs);
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, kTcpIdleS);
  socket.set(zmq::sockopt::tcp_keepalive_intvl, kTcpProbeS);
  socket.set(zmq::sockopt::tcp_keepalive_cnt, kTcpProbes);
  socket.set(zmq::sockopt::tcp_maxrt, kTcpUnackedMs);
  return socket;
}

void use_curve(zmq::socket_t& socket, const KeyPair& own, const PublicKey* server) {
  if (server)
    socket.set(zmq::sockopt::curve_serverkey, zmq::buffer(*server));
  else
    socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_publickey, zmq::buffer(own.public_key));
  socket.set(zmq::sockopt::curve_secretkey, zmq::buffer(own.secret_key));
  if (socket.get(zmq::sockopt::mechanism) != ZMQ_CURVE) {
    errno = ENOCOMPATPROTO;
    throw zmq::error_t();
  }
}

ZmqSocket::ZmqSocket(Executor executor, zmq::socket_t socket, Handler handler)
    : socket_(std::move(socket)),
      descriptor_(executor, socket_.get(zmq::sockopt::fd)),
      handler_(std::move(handler)) {}

ZmqSocket::~ZmqSocket() { close(); }

void ZmqSocket::start() { post_drain(); }

void ZmqSocket::close() {
  if (!socket_) return;
  descriptor_.release();  // ZeroMQ closes it
  socket_.close();
}

// The descriptor only signals that ZMQ_EVENTS has changed, and any call on the socket, even a send,
// may consume that signal. So only ZMQ_EVENTS counts.
bool ZmqSocket::readable() {
  int events = 0;
  std::size_t size = sizeof events;
  int rc = 0;
  do {
    rc = zmq_getsockopt(socket_.handle(), ZMQ_EVENTS, &events, &size);
  } while (rc < 0 && errno == EINTR);
  return rc == 0 && (events & ZMQ_POLLIN) != 0;
}

void ZmqSocket::wait() {
  if (readable()) return post_drain();
  draining_ = false;
  if (std::exchange(waiting_, true)) return;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [weak = weak_from_this()](const boost::system::error_code& error) {
                           const auto self = weak.lock();
                           if (error || !self) return;
                           self->waiting_ = false;
                           if (self->draining_) return;  // a drain is posted, and will wait again
                           self->draining_ = true;
                           self->drain();
                         });
}

void ZmqSocket::post_drain() {
  draining_ = true;
  asio::post(descriptor_.get_executor(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->drain();
  });
}

void ZmqSocket::drain() {
  const auto self = shared_from_this();  // the handler may destroy the owner
  for (int handled = 0; handled < kBatch; ++handled) {
    if (!socket_) return;
    if (!receive()) return wait();
  }
  if (socket_) post_drain();
}

// Passes on one message. Returns false if there is none.
bool ZmqSocket::receive() {
  std::array<zmq::message_t, kMostFrames> frames;
  std::size_t count = 0;
  for (bool more = true; more; ++count) {
    zmq::message_t surplus;
    zmq::message_t& frame = count < kMostFrames ? frames[count] : surplus;
    int rc = 0;
    do {
      rc = zmq_msg_recv(frame.handle(), socket_.handle(), ZMQ_DONTWAIT);
    } while (rc < 0 && errno == EINTR);
    if (rc < 0) return false;
    more = frame.more();
  }
  if (count <= kMostFrames) handler_(std::span(frames).first(count));
  return true;
}

bool ZmqSocket::send(Bytes message) { return send({}, std::move(message)); }

bool ZmqSocket::send(ByteSpan to, Bytes message) {
  if (!socket_) return false;
  bool sent = true;
  if (!to.empty()) {
    zmq::message_t id(to.data(), to.size());
    sent = send_frame(id, ZMQ_SNDMORE);
  }
  if (sent) {
    zmq::message_t body = take(std::move(message));
    sent = send_frame(body, 0);
  }
  if (!draining_ && readable()) post_drain();  // the send may have consumed the signal
  return sent;
}

bool ZmqSocket::send_frame(zmq::message_t& frame, int flags) {
  int rc = 0;
  do {
    rc = zmq_msg_send(frame.handle(), socket_.handle(), flags | ZMQ_DONTWAIT);
  } while (rc < 0 && errno == EINTR);
  return rc >= 0;
}

}  // namespace s3oram
