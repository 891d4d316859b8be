// The transport's sockets: one that listens, two for each server, and the routes of answers.
#include "oramcore/zmq/zmq_transport.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <system_error>
#include <thread>
#include <zmq.hpp>

#include "oramcore/base/limits.h"
#include "oramcore/base/random.h"
#include "oramcore/net/endpoint.h"
#include "oramcore/zmq/gate.h"
#include "oramcore/zmq/zap.h"
#include "oramcore/zmq/zmq_config.h"
#include "oramcore/zmq/zmq_peer.h"
#include "oramcore/zmq/zmq_socket.h"

namespace s3oram {
namespace {

// ZeroMQ's own limit for a listener's messages, which cannot be changed later. The gate, or
// deliver(), enforces the actual limit.
constexpr std::size_t kAnyMessage = 256 << 20;

/// Returns a name for an abstract unix socket that nobody else uses.
std::string unique_name() {
  Bytes random(16);
  SystemRandom().fill(random);
  std::string name = "s3oramfs-";
  for (const auto byte : random) name += fmt::format("{:02x}", byte);
  return name;
}

// Each connection is handled by one ZeroMQ thread, including its encryption.
int io_threads(const ZmqConfig& config) {
  const std::size_t connections = 2 * config.peers.size() + 1;
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return static_cast<int>(std::min(connections, cores));
}

enum class Lane { express, bulk };

Lane lane_of(ByteSpan message) {
  const MessageKind kind = kind_of(message);
  return kind == MessageKind::bulk_question || kind == MessageKind::bulk_answer ? Lane::bulk
                                                                                : Lane::express;
}

ByteSpan view_of(const zmq::message_t& message) {
  return {message.data<std::uint8_t>(), message.size()};
}

class Sockets final : public ZmqTransport {
 public:
  Sockets(Executor executor, const ZmqConfig& config)
      : executor_(std::move(executor)), config_(config), context_(io_threads(config)) {}
  ~Sockets() override;

  /// Opens the sockets. Throws zmq::error_t or std::system_error. `doing` names the step that
  /// failed.
  void open(ZapHandler::Admitted admitted, std::string& doing);

  void on_message(Handler handler) override { handler_ = std::move(handler); }
  void on_connection(std::function<void(Party)> handler) override {
    connected_ = std::move(handler);
  }
  void send(Party to, Bytes message) override;
  PeerState state(Party server) const override;
  std::chrono::steady_clock::time_point state_since(Party server) const override;
  Traffic traffic(Party party) const override;
  void limit_messages(std::size_t largest) override;
  std::string endpoint() const override { return endpoint_; }
  Status admit_clients(const std::vector<PublicKey>& keys) override;
  Status set_peer(const PeerAddress& peer) override;

 private:
  PeerAddress* address_of(Party server);
  void admit(ZapHandler::Admitted admitted);
  void connect(const PeerAddress& address);
  void listen(ZapHandler::Admitted admitted);
  void on_question(std::span<zmq::message_t> frames);
  void connect(const PeerAddress& address, Lane lane);
  std::optional<Party> sender(std::span<zmq::message_t> frames) const;
  void deliver(Party from, ByteSpan message);
  bool transmit(Party to, Bytes message);
  bool ask(Party to, Lane lane, Bytes message);

  Executor executor_;
  ZmqConfig config_;
  zmq::context_t context_;
  std::unique_ptr<Gate> gate_;  // before zap_, whose thread calls it
  std::unique_ptr<ZapHandler> zap_;
  std::shared_ptr<ZmqSocket> router_;
  std::map<std::pair<Party, Lane>, std::shared_ptr<ZmqPeer>> peers_;
  // The routing id with which each party last asked.
  std::map<std::pair<Party, Lane>, Bytes> routes_;
  std::set<std::string> users_;  // names of all keys that count now (ZapHandler::user_of)
  std::map<Party, Traffic> traffic_;
  std::string endpoint_;
  Handler handler_;
  std::function<void(Party)> connected_;
};

Sockets::~Sockets() {
  for (auto& [to, peer] : peers_) peer->close();
  if (router_) router_->close();
  context_.shutdown();  // ends the ZAP thread
}

void Sockets::open(ZapHandler::Admitted admitted, std::string& doing) {
  admit(admitted);
  if (!config_.listen.empty()) {
    doing = "listening on " + config_.listen;
    listen(std::move(admitted));
  }
  for (const auto& address : config_.peers) {
    doing = "connecting to " + address.endpoint;
    connect(address);
  }
}

void Sockets::connect(const PeerAddress& address) {
  connect(address, Lane::express);
  connect(address, Lane::bulk);
}

void Sockets::connect(const PeerAddress& address, Lane lane) {
  auto peer = std::make_shared<ZmqPeer>(
      context_, executor_, address, config_.self, config_.keys, config_.largest_message,
      [this, from = address.party](zmq::message_t& message) {
        if (is_answer(view_of(message))) deliver(from, view_of(message));
      },
      [this, to = address.party] {
        if (connected_) connected_(to);
      });
  peer->open();
  peers_[{address.party, lane}] = std::move(peer);
}

void Sockets::listen(ZapHandler::Admitted admitted) {
  auto router = open_zmq_socket(context_, zmq::socket_type::router, kAnyMessage);
  router.set(zmq::sockopt::router_mandatory, true);
  const uid_t uid = ::geteuid();  // only this user may connect over unix sockets
  if (zmq_setsockopt(router.handle(), ZMQ_IPC_FILTER_UID, &uid, sizeof uid) != 0)
    throw zmq::error_t();
  if (is_tcp(config_.listen)) {
    const std::string inner = unique_name();
    gate_ = std::make_unique<Gate>(config_.listen, std::string(1, '\0') + inner, config_.keys,
                                   config_.allow);
    gate_->limit_messages(config_.largest_message);
    zap_ = std::make_unique<ZapHandler>(context_, std::move(admitted),
                                        [this] { return gate_->being_judged(); });
    router.set(zmq::sockopt::zap_domain, kZapDomain);
    use_curve(router, config_.keys, nullptr);
    router.bind("ipc://@" + inner);
    endpoint_ = gate_->endpoint();
  } else {
    // A party that reconnects keeps its routing id, and takes over from its dead connection.
    router.set(zmq::sockopt::router_handover, true);
    router.bind(config_.listen);
    endpoint_ = router.get(zmq::sockopt::last_endpoint);
  }
  router_ = std::make_shared<ZmqSocket>(
      executor_, std::move(router),
      [this](std::span<zmq::message_t> frames) { on_question(frames); });
  router_->start();
}

void Sockets::limit_messages(std::size_t largest) {
  config_.largest_message = largest;
  if (gate_) gate_->limit_messages(largest);
}

// Returns who asks, from the connection's key or, where only our own uid can connect, from the
// routing id. A client that was revoked, or a server that was replaced, may still be connected.
std::optional<Party> Sockets::sender(std::span<zmq::message_t> frames) const {
  Party party = 0;
  if (is_tcp(config_.listen)) {
    const char* user = zmq_msg_gets(frames[1].handle(), "User-Id");
    if (!user || !users_.contains(user)) return std::nullopt;  // !user: no ZAP handler was asked
    const char* end = user + std::strlen(user);
    if (std::from_chars(user, end, party).ec != std::errc()) return std::nullopt;
  } else {
    const auto& id = frames[0];
    if (id.size() != 1 + kIpcNonce || !(*id.data<std::uint8_t>() & kIpcParty)) return std::nullopt;
    party = *id.data<std::uint8_t>() & ~kIpcParty;
  }
  if (party != kClient && !peers_.contains({party, Lane::express})) return std::nullopt;
  return party;
}

void Sockets::on_question(std::span<zmq::message_t> frames) {
  if (frames.size() != 2 || !is_question(view_of(frames[1]))) return;
  const auto from = sender(frames);
  if (!from) return;
  const ByteSpan id = view_of(frames[0]), message = view_of(frames[1]);
  routes_[{*from, lane_of(message)}].assign(id.begin(), id.end());
  deliver(*from, message);
}

void Sockets::deliver(Party from, ByteSpan message) {
  if (message.size() > config_.largest_message || !handler_) return;
  traffic_[from].bytes_received += message.size();
  handler_(from, Bytes(message.begin(), message.end()));
}

void Sockets::send(Party to, Bytes message) {
  const std::size_t size = message.size();
  auto& traffic = traffic_[to];
  if (transmit(to, std::move(message)))
    traffic.bytes_sent += size;
  else
    ++traffic.dropped;
}

bool Sockets::transmit(Party to, Bytes message) {
  if (message.empty()) return false;
  if (message.size() > config_.largest_message) {
    // The other side would close the connection because of such a message.
    spdlog::error("a message of {} bytes to party {} is over the limit of {}", message.size(), to,
                  config_.largest_message);
    return false;
  }
  const Lane lane = lane_of(message);
  if (is_question(message)) return ask(to, lane, std::move(message));
  if (!is_answer(message) || !router_) return false;
  const auto route = routes_.find({to, lane});
  return route != routes_.end() && router_->send(route->second, std::move(message));
}

// Uses the express connection while the bulk one is not connected.
bool Sockets::ask(Party to, Lane lane, Bytes message) {
  auto peer = peers_.find({to, lane});
  if (peer == peers_.end()) return false;
  if (peer->second->state() != PeerState::connected) peer = peers_.find({to, Lane::express});
  return peer->second->send(std::move(message));
}

PeerState Sockets::state(Party server) const {
  const auto peer = peers_.find({server, Lane::express});
  return peer == peers_.end() ? PeerState::connecting : peer->second->state();
}

std::chrono::steady_clock::time_point Sockets::state_since(Party server) const {
  const auto peer = peers_.find({server, Lane::express});
  return peer == peers_.end() ? std::chrono::steady_clock::now() : peer->second->since();
}

Traffic Sockets::traffic(Party party) const {
  const auto found = traffic_.find(party);
  return found == traffic_.end() ? Traffic{} : found->second;
}

// Messages of keys that are not among these no longer count, although their connections stay open.
void Sockets::admit(ZapHandler::Admitted admitted) {
  users_.clear();
  for (const auto& [key, party] : admitted) users_.insert(ZapHandler::user_of(party, key));
  if (zap_) zap_->admit(std::move(admitted));
}

Status Sockets::admit_clients(const std::vector<PublicKey>& keys) {
  S3O_ASSIGN(auto admitted, admitted_keys(config_, keys));
  const bool revokes = std::ranges::any_of(config_.client_keys, [&](const PublicKey& key) {
    return std::ranges::find(keys, key) == keys.end();
  });
  admit(std::move(admitted));
  config_.client_keys = keys;
  // The last question may have been the revoked client's. Another client asks again.
  if (revokes)
    for (const Lane lane : {Lane::express, Lane::bulk}) routes_.erase({kClient, lane});
  return {};
}

PeerAddress* Sockets::address_of(Party server) {
  const auto found = std::ranges::find(config_.peers, server, &PeerAddress::party);
  return found == config_.peers.end() ? nullptr : &*found;
}

Status Sockets::set_peer(const PeerAddress& peer) {
  PeerAddress* const address = address_of(peer.party);
  if (!address) return fail(Errc::usage, "there is no server {} to replace", peer.party);
  if (address->endpoint == peer.endpoint && address->key == peer.key) return {};
  PeerAddress former = std::exchange(*address, peer);
  const Status sound = check(config_);
  auto admitted = admitted_keys(config_, config_.client_keys);
  if (!sound || !admitted) {
    *address = std::move(former);
    return sound ? Status(fail(admitted.error())) : sound;
  }
  admit(std::move(*admitted));
  for (const Lane lane : {Lane::express, Lane::bulk}) {
    peers_.at({peer.party, lane})->close();
    routes_.erase({peer.party, lane});
  }
  try {
    connect(peer);
  } catch (const zmq::error_t& error) {
    return fail(Errc::failed, "connecting to {}: {}", peer.endpoint, error.what());
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ZmqTransport>> make_zmq_transport(Executor executor,
                                                         const ZmqConfig& config) {
  S3O_TRY(check(config));
  S3O_ASSIGN(auto admitted, admitted_keys(config, config.client_keys));
  if (!config.listen.empty() && !is_tcp(config.listen)) S3O_TRY(check_ipc_free(config.listen));
  // ZeroMQ ends the process when it cannot start a thread. In addition to the I/O threads it starts
  // one that closes sockets.
  S3O_TRY(check_threads(static_cast<unsigned>(io_threads(config)) + 2));
  std::string doing = "starting ZeroMQ";
  const auto failed = [&doing](int error, const char* what) {
    if (error == EADDRINUSE)
      return fail(Errc::exists, "{}: another process listens there; stop it, or use another port",
                  doing);
    if (error == ENODEV || error == EADDRNOTAVAIL)
      return fail(Errc::failed, "{}: no interface of this machine has that address", doing);
    return fail(Errc::failed, "{}: {}", doing, what);
  };
  try {
    auto sockets = std::make_unique<Sockets>(std::move(executor), config);
    sockets->open(std::move(admitted), doing);
    return sockets;
  } catch (const zmq::error_t& error) {
    return failed(error.num(), error.what());
  } catch (const std::system_error& error) {
    return failed(error.code().value(), error.what());
  }
}

}  // namespace s3oram
