// A wide-area network on one machine: carries TCP connections as lines of given rates and round
// trips would. The kernel's own tool (netem) is not available everywhere; this needs only sockets.
//
//   wan_relay [--up MBIT --down MBIT --rtt MS --server-rate MBIT --server-rtt MS]
//             FROM-TO=PORT:TARGET...
//
// Each FROM-TO is a link: connections to 127.0.0.1:PORT are carried to 127.0.0.1:TARGET. FROM is
// "user" or a server's name. All links of the user share one line up and one line down. Everything
// that a server sends to others shares that server's line. (What it receives is not limited: all
// servers send alike, so each receives as much as it sends.) Rates count the bytes that programs
// send, including encryption, without the headers of TCP and IP. A line is first in, first out, in
// pieces of about a millisecond; a piece arrives half a round trip after its last byte has left.
// Bytes that do not fit on the line wait in the sender's socket, as usual. Lost packets, and the
// slow start of a TCP connection after a pause, are not modelled. A rate of 0 means no limit.
//
// Takes commands on standard input, and answers each with one line of JSON: "stats"; "open", after
// which nothing is delayed or limited; and "shape", after which everything is. It ends at the end
// of the input.
#include <CLI/CLI.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "oramcore/base/async.h"
#include "oramcore/base/bytes.h"
#include "tests/bench/wide_area/shaping.h"

namespace s3oram::wide_area {
namespace {

using Tcp = asio::ip::tcp;
using boost::system::error_code;

// The most bytes in one direction of a connection, like the window of a TCP connection.
constexpr std::size_t kWindow = std::size_t{4} << 20;
// If this much waits for a line, no more is read from the senders.
constexpr auto kBacklog = std::chrono::milliseconds(3);

struct Network {
  Occupancy occupancy;
  bool shaped = true;
};

struct Direction {
  std::shared_ptr<Line> line;
  std::uint64_t bytes = 0;
};

struct Link {
  std::string name;
  Kind kind = Kind::user;
  std::uint16_t port = 0, target = 0;
  Clock::duration delay{};  // one way
  Direction there, back;
};

Task<void> sleep_until(Clock::time_point when) {
  if (when <= Clock::now()) co_return;
  asio::steady_timer timer(co_await asio::this_coro::executor, when);
  co_await timer.async_wait(asio::use_awaitable);
}

struct Connection {
  Connection(Tcp::socket a, Executor executor) : from(std::move(a)), to(executor) {}
  Tcp::socket from, to;
  void close() {
    error_code ignored;  // it may already be closed
    from.close(ignored);
    to.close(ignored);
  }
};

// The pieces of one direction of a connection that are on their way.
struct Flight {
  struct Piece {
    Bytes bytes;
    Clock::time_point due;
  };
  std::deque<Piece> pieces;
  std::size_t bytes = 0;
  bool ended = false;  // the sender has
  bool broken = false;
  Event changed;
};

Task<void> deliver(Network& network, Kind kind, std::shared_ptr<Connection> connection,
                   Tcp::socket& out, std::shared_ptr<Flight> flight) {
  for (;;) {
    while (flight->pieces.empty() && !flight->ended) co_await flight->changed.wait();
    if (flight->pieces.empty()) break;
    co_await sleep_until(flight->pieces.front().due);
    error_code error;
    if (!flight->broken)
      co_await asio::async_write(out, asio::buffer(flight->pieces.front().bytes),
                                 asio::redirect_error(asio::use_awaitable, error));
    if (error) {
      flight->broken = true;
      connection->close();
    }
    flight->bytes -= flight->pieces.front().bytes.size();
    flight->pieces.pop_front();
    network.occupancy.leave(kind);
    flight->changed.notify_all();
  }
  error_code ignored;  // the other side may have gone first
  out.shutdown(Tcp::socket::shutdown_send, ignored);
}

Task<void> carry(Network& network, Link& link, Direction& way,
                 std::shared_ptr<Connection> connection, Tcp::socket& in, Tcp::socket& out) {
  auto flight = std::make_shared<Flight>();
  spawn(in.get_executor(), deliver(network, link.kind, connection, out, flight));
  Line& line = *way.line;
  Bytes buffer(Line::kLargestPiece);
  while (!flight->broken) {
    if (network.shaped) co_await sleep_until(line.free() - kBacklog);
    while (flight->bytes >= kWindow) co_await flight->changed.wait();
    error_code error;
    const std::size_t most = network.shaped ? line.piece() : buffer.size();
    const std::size_t got = co_await in.async_read_some(
        asio::buffer(buffer, most), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    way.bytes += got;
    auto due = Clock::now();
    if (network.shaped) due = line.pass(got) + link.delay;
    network.occupancy.enter(link.kind);
    flight->bytes += got;
    flight->pieces.push_back({Bytes(buffer.begin(), buffer.begin() + static_cast<long>(got)), due});
    flight->changed.notify_all();
  }
  flight->ended = true;
  flight->changed.notify_all();
}

Task<void> join(Network& network, Link& link, Tcp::socket accepted) {
  const auto executor = accepted.get_executor();
  auto connection = std::make_shared<Connection>(std::move(accepted), executor);
  error_code error;
  const Tcp::endpoint target(asio::ip::address_v4::loopback(), link.target);
  co_await connection->to.async_connect(target, asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return;  // nothing listens there, so the caller's connection ends too
  connection->from.set_option(Tcp::no_delay(true));
  connection->to.set_option(Tcp::no_delay(true));
  spawn(executor, carry(network, link, link.there, connection, connection->from, connection->to));
  spawn(executor, carry(network, link, link.back, connection, connection->to, connection->from));
}

Task<void> listen(Network& network, Link& link, Tcp::acceptor acceptor) {
  for (;;) {
    error_code error;
    Tcp::socket accepted =
        co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (!error) spawn(acceptor.get_executor(), join(network, link, std::move(accepted)));
  }
}

nlohmann::json stats(Network& network, const std::deque<Link>& links) {
  nlohmann::json all;
  for (const Link& link : links)
    all["links"][link.name] = {{"there", link.there.bytes}, {"back", link.back.bytes}};
  const auto times = network.occupancy.times();
  all["seconds"] = {{"user", times.user},
                    {"servers", times.servers},
                    {"both", times.both},
                    {"neither", times.neither}};
  all["on_way"] = {{"user", network.occupancy.on_way(Kind::user)},
                   {"servers", network.occupancy.on_way(Kind::servers)}};
  all["shaped"] = network.shaped;
  return all;
}

Task<void> obey(asio::io_context& io, Network& network, const std::deque<Link>& links) {
  asio::posix::stream_descriptor input(io, ::dup(STDIN_FILENO));
  asio::streambuf buffer;
  for (;;) {
    error_code error;
    co_await asio::async_read_until(input, buffer, '\n',
                                    asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    std::string command;
    std::getline(std::istream(&buffer) >> std::ws, command);
    if (command == "open" || command == "shape") network.shaped = command == "shape";
    std::cout << stats(network, links) << std::endl;
  }
  io.stop();
}

struct Options {
  double up = 5, down = 29, rtt = 15, server_rate = 250, server_rtt = 15;
  std::vector<std::string> links;
};

bool make_links(const Options& options, std::deque<Link>& links) {
  const auto up = std::make_shared<Line>(options.up);
  const auto down = std::make_shared<Line>(options.down);
  std::map<std::string, std::shared_ptr<Line>> servers;
  const auto sending = [&](const std::string& server) {
    auto& line = servers[server];
    if (!line) line = std::make_shared<Line>(options.server_rate);
    return line;
  };
  static const std::regex form("((\\w+)-(\\w+))=(\\d{1,5}):(\\d{1,5})");
  for (const auto& text : options.links) {
    std::smatch match;
    if (!std::regex_match(text, match, form)) {
      std::cerr << "wan_relay: " << text << ": not of the form FROM-TO=PORT:TARGET\n";
      return false;
    }
    Link& link = links.emplace_back();
    link.name = match[1];
    link.port = static_cast<std::uint16_t>(std::stoul(match[4]));
    link.target = static_cast<std::uint16_t>(std::stoul(match[5]));
    link.kind = match[2] == "user" ? Kind::user : Kind::servers;
    const bool user = link.kind == Kind::user;
    link.there.line = user ? up : sending(match[2]);
    link.back.line = user ? down : sending(match[3]);
    const double round_trip = user ? options.rtt : options.server_rtt;
    link.delay = std::chrono::duration_cast<Clock::duration>(Seconds(round_trip / 2e3));
  }
  return true;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Carries TCP connections as a wide-area network would.", "wan_relay");
  app.add_option("--up", options.up, "The user's Mbit/s to all servers");
  app.add_option("--down", options.down, "The user's Mbit/s from all servers");
  app.add_option("--rtt", options.rtt, "Milliseconds from the user to a server and back");
  app.add_option("--server-rate", options.server_rate, "Mbit/s that a server sends to the others");
  app.add_option("--server-rtt", options.server_rtt, "Milliseconds between servers, and back");
  app.add_option("LINK", options.links, "FROM-TO=PORT:TARGET")->required();
  CLI11_PARSE(app, argc, argv);
  std::deque<Link> links;
  if (!make_links(options, links)) return 2;
  Network network;
  asio::io_context io(1);
  for (Link& link : links) {
    const Tcp::endpoint here(asio::ip::address_v4::loopback(), link.port);
    spawn(io.get_executor(), listen(network, link, Tcp::acceptor(io, here)));
  }
  spawn(io.get_executor(), obey(io, network, links));
  std::cout << stats(network, links) << std::endl;  // now it listens
  io.run();
  return 0;
}

}  // namespace
}  // namespace s3oram::wide_area

int main(int argc, char** argv) {
  try {
    return s3oram::wide_area::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "wan_relay: " << error.what() << "\n";
    return 1;
  }
}
