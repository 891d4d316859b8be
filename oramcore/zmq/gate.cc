// Leads strangers through the CURVE handshake before ZeroMQ sees them: see gate.h.
#include "oramcore/zmq/gate.h"

#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <system_error>

#include "oramcore/base/quiet_thread.h"
#include "oramcore/net/endpoint.h"
#include "oramcore/net/transport.h"
#include "oramcore/zmq/zmtp.h"

namespace s3oram {
namespace {

using boost::system::error_code;
using Tcp = asio::ip::tcp;
using Unix = asio::local::stream_protocol;

constexpr std::chrono::milliseconds kPause{100};  // pause after failing to accept a connection
constexpr int kBacklog = 1024;
constexpr std::size_t kBuffer = 128 << 10;  // bytes for each direction of an admitted connection
constexpr std::size_t kFrameOverhead = 64;  // CURVE's nonce and tag

// The times and counts by which TCP notices a dead link.
constexpr int kIdleS = 10, kProbeS = 5, kProbes = 3, kUnackedMs = 20'000;

auto into(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

[[noreturn]] void give_up(int error) { throw std::system_error(error, std::generic_category()); }

/// Returns the IPv4 address of an interface such as "eth0".
asio::ip::address address_of_interface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) give_up(errno);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, ::freeifaddrs);
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || name != one->ifa_name) continue;
    sockaddr_in found{};
    std::memcpy(&found, one->ifa_addr, sizeof found);
    return asio::ip::address_v4(ntohl(found.sin_addr.s_addr));
  }
  give_up(ENODEV);
}

Tcp::endpoint where(const std::string& endpoint) {
  const std::string rest = endpoint.substr(endpoint.find("//") + 2);
  const auto colon = rest.rfind(':');
  std::string host = rest.substr(0, colon);
  const std::string port_text = rest.substr(colon + 1);
  std::uint16_t port = 0;  // for "*" it stays 0, which means any port
  std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (host == "*") return {asio::ip::address_v6::any(), port};
  if (host.front() == '[') host = host.substr(1, host.size() - 2);
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  return {error ? address_of_interface(host) : address, port};
}

std::string written(const Tcp::endpoint& endpoint) {
  const auto address = plain(endpoint.address());
  return address.is_v6() ? fmt::format("[{}]:{}", address.to_string(), endpoint.port())
                         : fmt::format("{}:{}", address.to_string(), endpoint.port());
}

/// Limits strangers to a quarter of the descriptors that this process may have open.
GateLimits within_descriptors(GateLimits limits) {
  rlimit open{};
  if (::getrlimit(RLIMIT_NOFILE, &open) != 0) return limits;
  const auto share = std::max<std::size_t>(2, static_cast<std::size_t>(open.rlim_cur) / 8);
  limits.silent = std::min(limits.silent, share);
  limits.knocking = std::min(limits.knocking, share / 2);  // each of them holds two descriptors
  return limits;
}

/// Starts listening. Throws std::system_error.
void listen(Tcp::acceptor& acceptor, Tcp::endpoint at, bool any_address) {
  error_code error;
  acceptor.open(at.protocol(), error);
  if (error == asio::error::address_family_not_supported && any_address) {  // no IPv6 here
    at = {asio::ip::address_v4::any(), at.port()};
    acceptor.open(at.protocol(), error);
  }
  if (!error && at.address().is_v6()) acceptor.set_option(asio::ip::v6_only(false), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(at, error);
  if (!error) acceptor.listen(kBacklog, error);
  if (error) give_up(error.value());
}

void tune(Tcp::socket& socket) {
  const auto set = [fd = socket.native_handle()](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kIdleS);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeS);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUnackedMs);
}

/// Returns the network for which a connection counts: an IPv4 address, or the /64 of an IPv6
/// address, because one machine has many of these.
Network network_of(const asio::ip::address& address) {
  if (address.is_v4()) return asio::ip::network_v4(address.to_v4(), 32);
  return asio::ip::network_v6(asio::ip::address_v6(address.to_v6().to_bytes()), 64).canonical();
}

/// Reads one whole frame. Returns false if there is none, or if it does not belong to a handshake.
template <class Socket>
Task<bool> read_frame(Socket& from, Bytes& frame) {
  error_code error;
  frame.resize(2);
  co_await asio::async_read(from, asio::buffer(frame), into(error));
  if (error || !(frame[0] & zmtp::kCommand)) co_return false;
  const std::size_t header = zmtp::header_size(frame[0]);
  frame.resize(header);
  co_await asio::async_read(from, asio::buffer(frame.data() + 2, header - 2), into(error));
  const std::uint64_t body = error ? 0 : zmtp::body_size(frame);
  if (error || body > zmtp::kLongestCommand) co_return false;
  frame.resize(header + static_cast<std::size_t>(body));
  co_await asio::async_read(from, asio::buffer(frame.data() + header, frame.size() - header),
                            into(error));
  co_return !error;
}

template <class Socket>
Task<bool> write_all(Socket& to, ByteSpan bytes) {
  error_code error;
  co_await asio::async_write(to, asio::buffer(bytes.data(), bytes.size()), into(error));
  co_return !error;
}

bool is_ready(ByteSpan frame) {
  static constexpr std::string_view kReady("\x05READY", 6);
  const std::size_t header = zmtp::header_size(frame[0]);
  return frame.size() >= header + kReady.size() &&
         std::equal(kReady.begin(), kReady.end(), frame.begin() + static_cast<long>(header));
}

}  // namespace

asio::ip::address crowd_of(const asio::ip::address& address) {
  auto one = plain(address);
  if (one.is_v4()) return one;
  return asio::ip::network_v6(asio::ip::address_v6(one.to_v6().to_bytes()), 48).network();
}

/// One connection, from a party outside to ZeroMQ inside.
class Visit : public std::enable_shared_from_this<Visit> {
 public:
  Visit(Tcp::socket socket, const Tcp::endpoint& from)
      : outer(std::move(socket)),
        inner(outer.get_executor()),
        address(written(from)),
        network(network_of(plain(from.address()))),
        crowd(crowd_of(from.address())),
        deadline_(outer.get_executor()) {}
  ~Visit() { leave(); }

  void close_after(std::chrono::milliseconds patience) {
    deadline_.expires_after(patience);
    deadline_.async_wait([weak = weak_from_this()](const error_code& error) {
      if (const auto self = weak.lock(); self && !error) self->close();
    });
  }
  void stay() { deadline_.cancel(); }
  /// Closes the connection. Operations that wait for it end with an error.
  void close() {
    error_code ignored;
    outer.close(ignored);
    inner.close(ignored);
  }

  /// Moves to `room`, and leaves the room that it is in. Returns the result of room.enter().
  std::string enter(WaitingRoom& room) {
    leave();
    room_ = &room;
    return room.enter(*this);
  }
  void leave() {
    if (WaitingRoom* const room = std::exchange(room_, nullptr)) room->leave(*this);
  }

  Tcp::socket outer;
  Unix::socket inner;  // leads to ZeroMQ
  const std::string address;
  const Network network;
  const asio::ip::address crowd;

 private:
  WaitingRoom* room_ = nullptr;
  asio::steady_timer deadline_;
};

std::string WaitingRoom::enter(Visit& visit) {
  const auto of_one = std::ranges::count(visits_, visit.network, &Visit::network);
  Visit* goes = nullptr;
  if (static_cast<std::size_t>(of_one) >= of_one_)
    goes = oldest_of(visit.network);
  else if (visits_.size() >= most_)
    goes = oldest_of_largest_crowd();
  visits_.push_back(&visit);
  if (!goes) return {};
  goes->close();
  goes->leave();
  return goes->address;
}

void WaitingRoom::leave(Visit& visit) { visits_.remove(&visit); }

void WaitingRoom::close_one() {
  if (visits_.empty()) return;
  Visit& goes = *oldest_of_largest_crowd();
  goes.close();
  goes.leave();
}

Visit* WaitingRoom::oldest_of(const Network& network) const {
  return *std::ranges::find(visits_, network, &Visit::network);
}

Visit* WaitingRoom::oldest_of_largest_crowd() const {
  std::map<asio::ip::address, std::size_t> sizes;
  for (const Visit* visit : visits_) ++sizes[visit->crowd];
  return *std::ranges::max_element(visits_, {},
                                   [&](const Visit* visit) { return sizes[visit->crowd]; });
}

Gate::Gate(const std::string& endpoint, std::string inner, const KeyPair& keys,
           std::vector<Network> allowed, const GateLimits& limits)
    : inner_(std::move(inner)),
      keys_(keys),
      allowed_(std::move(allowed)),
      limits_(within_descriptors(limits)),
      largest_message_(kLargestWithoutVolume),
      silent_(limits_.silent, limits_.silent_of_one),
      knocking_(limits_.knocking, limits_.knocking_of_one) {
  const Tcp::endpoint at = where(endpoint);
  listen(acceptor_, at, endpoint.starts_with("tcp://*"));
  endpoint_ = endpoint.substr(0, endpoint.rfind(':') + 1) +
              std::to_string(acceptor_.local_endpoint().port());
  spawn(io_.get_executor(), accept_all());
  thread_ = start_quiet_thread([this] { io_.run(); });
}

Gate::~Gate() {
  io_.stop();
  thread_.join();
}

std::string Gate::being_judged() const {
  const std::lock_guard lock(mutex_);
  return being_judged_;
}

void Gate::judge(const std::string& address) {
  judging_ = !address.empty();
  const std::lock_guard lock(mutex_);
  being_judged_ = address;
}

void Gate::warn(const std::string& address, const char* why) {
  if (warnings_.pass(std::chrono::steady_clock::now().time_since_epoch()))
    spdlog::warn("closed a connection from {}: {}{}", address, why, warnings_.more());
}

Task<void> Gate::accept_all() {
  asio::steady_timer pause(io_);
  for (;;) {
    error_code error;
    Tcp::endpoint from;
    Tcp::socket socket = co_await acceptor_.async_accept(from, into(error));
    if (error) {  // perhaps no descriptors are left
      silent_.close_one();
      pause.expires_after(kPause);
      co_await pause.async_wait(into(error));
    } else if (is_allowed(allowed_, from.address())) {
      spawn(io_.get_executor(), serve(std::make_shared<Visit>(std::move(socket), from)));
    } else {
      warn(written(from), "'allow' does not list the address");
    }
  }
}

Task<void> Gate::serve(std::shared_ptr<Visit> visit) {
  tune(visit->outer);
  visit->close_after(limits_.patience);
  const bool admitted = co_await handshake(*visit);
  visit->leave();
  visit->stay();
  if (!admitted) co_return visit->close();
  spawn(io_.get_executor(), pass_on_questions(visit));
  Bytes buffer(kBuffer);
  for (error_code error; !error;) {
    const std::size_t got =
        co_await visit->inner.async_read_some(asio::buffer(buffer), into(error));
    if (!error)
      co_await asio::async_write(visit->outer, asio::buffer(buffer.data(), got), into(error));
  }
  visit->close();
}

Task<void> Gate::pass_on_questions(std::shared_ptr<Visit> visit) {
  Bytes buffer(kBuffer);
  zmtp::FrameWatch frames;
  for (error_code error; !error;) {
    const std::size_t got =
        co_await visit->outer.async_read_some(asio::buffer(buffer), into(error));
    if (error) break;
    if (!frames.take(ByteSpan(buffer).first(got), largest_message_ + kFrameOverhead)) {
      spdlog::error("{} sent a message of more than {} bytes: closed the connection",
                    visit->address, largest_message_.load());
      break;
    }
    co_await asio::async_write(visit->inner, asio::buffer(buffer.data(), got), into(error));
  }
  visit->close();
}

Task<bool> Gate::handshake(Visit& visit) {
  Bytes said, frame;
  if (const auto closed = visit.enter(silent_); !closed.empty())
    warn(closed, "it had not identified itself, and too many others have connected since");
  if (!co_await hear_hello(visit, said)) co_return false;
  if (const auto closed = visit.enter(knocking_); !closed.empty())
    warn(closed, "it had not shown its key, and too many others have connected since");
  error_code error;
  co_await visit.inner.async_connect(Unix::endpoint(inner_), into(error));
  if (error || !co_await write_all(visit.inner, said)) co_return false;
  zmtp::Greeting known;
  co_await asio::async_read(visit.inner, asio::buffer(known), into(error));
  if (error || !co_await read_frame(visit.inner, frame)) co_return false;  // WELCOME
  if (!co_await write_all(visit.outer, frame)) co_return false;
  co_return co_await be_judged(visit);
}

/// Reads the greeting and the HELLO, and answers the greeting. `said` receives both, for ZeroMQ.
Task<bool> Gate::hear_hello(Visit& visit, Bytes& said) {
  static constexpr zmtp::Greeting ours = zmtp::curve_greeting();
  if (!co_await write_all(visit.outer, ours)) co_return false;
  error_code error;
  zmtp::Greeting theirs;
  co_await asio::async_read(visit.outer, asio::buffer(theirs), into(error));
  if (error || !zmtp::speaks_curve(theirs)) co_return false;
  Bytes hello;
  if (!co_await read_frame(visit.outer, hello)) co_return false;
  if (!is_for_us(hello)) {
    warn(visit.address, "it does not know this server's key");
    co_return false;
  }
  said.assign(theirs.begin(), theirs.end());
  said.insert(said.end(), hello.begin(), hello.end());
  co_return true;
}

/// Returns whether a HELLO was made with our public key.
bool Gate::is_for_us(ByteSpan hello) const {
  const std::size_t header = zmtp::header_size(hello[0]);
  static constexpr std::string_view kName("\x05HELLO", 6);
  if (hello.size() != header + zmtp::kHello) return false;
  const ByteSpan body = hello.subspan(header);
  if (!std::equal(kName.begin(), kName.end(), body.begin())) return false;
  std::array<std::uint8_t, crypto_box_NONCEBYTES> nonce{};
  static constexpr std::string_view kPrefix("CurveZMQHELLO---");
  auto end = std::copy(kPrefix.begin(), kPrefix.end(), nonce.begin());
  std::copy_n(body.data() + zmtp::kHelloNonce, zmtp::kHelloBox - zmtp::kHelloNonce, end);
  std::array<std::uint8_t, zmtp::kHello - zmtp::kHelloBox - crypto_box_MACBYTES> zeros{};
  return ::crypto_box_open_easy(zeros.data(), body.data() + zmtp::kHelloBox,
                                zmtp::kHello - zmtp::kHelloBox, nonce.data(),
                                body.data() + zmtp::kHelloKey, keys_.secret_key.data()) == 0;
}

/// Passes on the INITIATE, and ZeroMQ's answer back. Handles one connection at a time, so that the
/// ZAP handler, which judges the key, can be told where it comes from.
Task<bool> Gate::be_judged(Visit& visit) {
  Bytes frame;
  if (!co_await read_frame(visit.outer, frame)) co_return false;
  while (judging_) co_await judged_.wait();
  judge(visit.address);
  bool answered = co_await write_all(visit.inner, frame);
  if (answered) answered = co_await read_frame(visit.inner, frame);
  judge({});
  judged_.notify_all();
  const bool admitted = answered && is_ready(frame);
  if (answered && !co_await write_all(visit.outer, frame)) co_return false;
  co_return admitted;
}

}  // namespace s3oram
