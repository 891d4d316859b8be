// Keeps a connection to one server open, and says why if it cannot.
#include "oramcore/zmq/zmq_peer.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <cstring>
#include <string>

#include "oramcore/base/random.h"
#include "oramcore/net/endpoint.h"

namespace s3oram {
namespace {

constexpr std::chrono::seconds kReopenAfter{1};
constexpr std::chrono::milliseconds kDying{500};  // longer than a killed process takes to end

constexpr int kEvents = ZMQ_EVENT_CONNECT_DELAYED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_CLOSED |
                        ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                        ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

std::string ipc_routing_id(Party self) {
  std::string id(1 + kIpcNonce, '\0');
  SystemRandom().fill({reinterpret_cast<std::uint8_t*>(id.data()), id.size()});
  id[0] = static_cast<char>(kIpcParty | self);
  return id;
}

}  // namespace

ZmqPeer::ZmqPeer(zmq::context_t& context, Executor executor, PeerAddress address, Party self,
                 const KeyPair& keys, std::size_t largest_message, Handler handler,
                 Connected connected)
    : context_(context),
      executor_(executor),
      address_(std::move(address)),
      self_(self),
      keys_(keys),
      largest_message_(largest_message),
      handler_(std::move(handler)),
      connected_(std::move(connected)),
      reopen_(executor) {}

ZmqPeer::~ZmqPeer() { close(); }

void ZmqPeer::close() {
  reopen_.cancel();
  if (dealer_) dealer_->close();
  if (monitor_) monitor_->close();
}

zmq::socket_t ZmqPeer::make_dealer() {
  auto dealer = open_zmq_socket(context_, zmq::socket_type::dealer, largest_message_);
  // Nothing is queued for a server that is not connected, because Rpc sends it again.
  dealer.set(zmq::sockopt::immediate, true);
  if (is_tcp(address_.endpoint)) {
    dealer.set(zmq::sockopt::ipv6, wants_ipv6(address_.endpoint));
    use_curve(dealer, keys_, &*address_.key);
  } else {
    dealer.set(zmq::sockopt::routing_id, ipc_routing_id(self_));
  }
  return dealer;
}

zmq::socket_t ZmqPeer::make_monitor(zmq::socket_t& dealer) {
  // Every name is used once in a context, because an earlier monitor may still be closing.
  static std::atomic<std::uint64_t> serial{0};
  const std::string name = "inproc://monitor-" + std::to_string(serial++);
  if (zmq_socket_monitor(dealer.handle(), name.c_str(), kEvents) != 0) throw zmq::error_t();
  zmq::socket_t monitor(context_, zmq::socket_type::pair);
  monitor.set(zmq::sockopt::linger, 0);
  monitor.connect(name);
  return monitor;
}

void ZmqPeer::open() {
  close();
  const auto weak = weak_from_this();
  auto dealer = make_dealer();
  auto monitor = make_monitor(dealer);
  dealer.connect(address_.endpoint);
  monitor_ = std::make_shared<ZmqSocket>(executor_, std::move(monitor),
                                         [weak](std::span<zmq::message_t> frames) {
                                           std::uint16_t event = 0;
                                           if (frames[0].size() < sizeof event) return;
                                           std::memcpy(&event, frames[0].data(), sizeof event);
                                           if (const auto self = weak.lock()) self->on_event(event);
                                         });
  dealer_ = std::make_shared<ZmqSocket>(executor_, std::move(dealer),
                                        [weak](std::span<zmq::message_t> frames) {
                                          const auto self = weak.lock();
                                          if (self && frames.size() == 1) self->handler_(frames[0]);
                                        });
  monitor_->start();
  dealer_->start();
}

void ZmqPeer::become(PeerState state) {
  if (state_ != state) since_ = std::chrono::steady_clock::now();
  state_ = state;
}

void ZmqPeer::on_event(std::uint16_t event) {
  switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      become(PeerState::connected);
      broken_off_.reset();
      spdlog::debug("connected to server {} at {}", address_.party, address_.endpoint);
      connected_();
      break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      if (state_ != PeerState::refused)
        spdlog::warn(
            "server {} at {} does not know our key {}; on that server, run 's3oramfs-serverd "
            "peers' to list it if it is a server's, or 's3oramfs-serverd authorize' to admit it if "
            "it is a client's",
            address_.party, address_.endpoint, to_text(keys_.public_key));
      become(PeerState::refused);
      break;
    case ZMQ_EVENT_DISCONNECTED:
      // Before the handshake has succeeded, this means a wrong key, which neither side can report
      // to the other. But a server that is killed causes it too, for a moment.
      if (!broken_off_) broken_off_ = std::chrono::steady_clock::now();
      if (state_ == PeerState::connecting && address_.key &&
          std::chrono::steady_clock::now() - *broken_off_ >= kDying) {
        spdlog::warn(
            "server {} at {} closes connections before they are secure: it has a different key "
            "than {}, or is not an s3oramfs-serverd; ask its owner for its public key",
            address_.party, address_.endpoint, to_text(*address_.key));
        become(PeerState::insecure);
      }
      if (state_ == PeerState::connected) {
        broken_off_.reset();
        become(PeerState::connecting);
      }
      reopen_later();
      break;
    case ZMQ_EVENT_CLOSED:  // nobody listens there now; later another server may
      broken_off_.reset();
      become(PeerState::connecting);
      break;
    default:  // ZeroMQ tries again by itself
      reopen_.cancel();
  }
}

// After a refused key, an oversized message or any other protocol error, ZeroMQ gives up a
// connection for good, so it is opened again here.
void ZmqPeer::reopen_later() {
  reopen_.expires_after(kReopenAfter);
  reopen_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self) return;
    try {
      self->open();
    } catch (const zmq::error_t& failure) {
      spdlog::error("connecting to {}: {}; trying again", self->address_.endpoint, failure.what());
      self->reopen_later();
    }
  });
}

}  // namespace s3oram
