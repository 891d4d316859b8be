// A small HTTP server for one page.
#include "oramcore/base/metrics_responder.h"

#include <spdlog/spdlog.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <list>
#include <optional>

namespace s3oram {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using Answer = http::response<http::string_body>;

constexpr std::chrono::seconds kPause{1};  // pause after a failed accept

std::optional<Tcp::endpoint> parse(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string::npos)
    return std::nullopt;  // ambiguous: any colon could be the one before the port
  std::uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto [rest, wrong] = std::from_chars(text.data() + colon + 1, end, port);
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error || wrong != std::errc() || rest != end || colon + 1 == text.size()) return std::nullopt;
  return Tcp::endpoint(address, port);
}

std::string written(const Tcp::endpoint& endpoint) {
  const auto host = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", host, endpoint.port())
                                    : fmt::format("{}:{}", host, endpoint.port());
}

/// Returns whether a Host header refers to this machine: localhost or a loopback address, with or
/// without a port.
bool is_local_host(std::string_view host) {
  const auto colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && !host.ends_with(']');
  const std::string name(has_port ? host.substr(0, colon) : host);
  const auto endpoint = parse(name + ":0");
  return name == "localhost" || (endpoint && endpoint->address().is_loopback());
}

Answer answer_with(http::status status, std::string text) {
  Answer answer(status, 11);
  answer.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
  answer.body() = std::move(text);
  return answer;
}

}  // namespace

struct MetricsResponder::State {
  State(Executor executor, std::function<std::string()> text, const MetricsLimits& most)
      : acceptor(executor), page(std::move(text)), limits(most) {}

  Answer respond(const http::request<http::empty_body>& request) const;
  static Task<void> accept_all(std::shared_ptr<State> state);
  static Task<void> serve(std::shared_ptr<State> state, Tcp::socket socket);

  Tcp::acceptor acceptor;
  std::function<std::string()> page;  // empty once the responder is destroyed
  const MetricsLimits limits;
  bool local = true;                      // listens on a loopback address
  std::list<beast::tcp_stream*> streams;  // the oldest first
};

Answer MetricsResponder::State::respond(const http::request<http::empty_body>& request) const {
  const auto host = request[http::field::host];
  if (local && !is_local_host({host.data(), host.size()}))
    return answer_with(http::status::forbidden, "ask for localhost\n");
  const auto target = request.target();
  if (target.substr(0, target.find('?')) != "/metrics")
    return answer_with(http::status::not_found, "the only page here is /metrics\n");
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    Answer answer = answer_with(http::status::method_not_allowed, "the only method here is GET\n");
    answer.set(http::field::allow, "GET, HEAD");
    return answer;
  }
  return answer_with(http::status::ok, page());
}

Task<void> MetricsResponder::State::serve(std::shared_ptr<State> state, Tcp::socket socket) {
  beast::tcp_stream stream(std::move(socket));
  state->streams.push_back(&stream);
  stream.expires_after(state->limits.patience);
  beast::flat_buffer buffer(state->limits.header + 1);
  http::request_parser<http::empty_body> parser;
  parser.header_limit(state->limits.header);
  error_code error;
  co_await http::async_read_header(stream, buffer, parser,
                                   asio::redirect_error(asio::use_awaitable, error));
  const bool gone = error == http::error::end_of_stream || error == beast::error::timeout ||
                    (error && error.category() == asio::error::get_system_category());
  if (!gone && state->page) {
    Answer answer = error ? answer_with(http::status::bad_request, "not understood\n")
                          : state->respond(parser.get());
    answer.keep_alive(false);
    answer.prepare_payload();
    const bool head = !error && parser.get().method() == http::verb::head;
    http::response_serializer<http::string_body> serializer(answer);
    error_code failure;
    if (head)
      co_await http::async_write_header(stream, serializer,
                                        asio::redirect_error(asio::use_awaitable, failure));
    else
      co_await http::async_write(stream, serializer,
                                 asio::redirect_error(asio::use_awaitable, failure));
    // Unread data would make the kernel reset the connection before the client reads the answer.
    stream.socket().shutdown(Tcp::socket::shutdown_send, failure);
    std::size_t left = state->limits.header;
    while (!failure && left > 0) {
      buffer.clear();
      const std::size_t got = co_await stream.async_read_some(
          buffer.prepare(left), asio::redirect_error(asio::use_awaitable, failure));
      left -= std::min(left, got);
    }
  }
  state->streams.remove(&stream);
}

Task<void> MetricsResponder::State::accept_all(std::shared_ptr<State> state) {
  asio::steady_timer pause(state->acceptor.get_executor());
  while (state->page) {
    error_code error;
    Tcp::socket socket =
        co_await state->acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (!state->page) break;
    if (error) {  // perhaps no descriptors are left
      pause.expires_after(kPause);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    } else {
      if (state->streams.size() >= state->limits.connections) {
        state->streams.front()->close();
        state->streams.pop_front();
      }
      spawn(state->acceptor.get_executor(), serve(state, std::move(socket)));
    }
  }
}

Status check_metrics_address(const MetricsAddress& address, std::string_view option) {
  const auto endpoint = parse(address.address);
  if (!endpoint)
    return fail(Errc::usage, "{} {}: give an address in numbers and a port, like 127.0.0.1:9751",
                option, address.address);
  if (!endpoint->address().is_loopback() && !address.any)
    return fail(
        Errc::usage,
        "{} {}: only this machine may read the metrics; give a loopback address, like 127.0.0.1:{}",
        option, address.address, endpoint->port());
  return {};
}

Result<std::unique_ptr<MetricsResponder>> MetricsResponder::listen(
    Executor executor, const MetricsAddress& address, std::function<std::string()> page,
    const MetricsLimits& limits) {
  S3O_TRY(check_metrics_address(address, "metrics"));
  const Tcp::endpoint endpoint = *parse(address.address);
  auto state = std::make_shared<State>(executor, std::move(page), limits);
  state->local = endpoint.address().is_loopback();
  error_code error;
  state->acceptor.open(endpoint.protocol(), error);
  if (!error) state->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) state->acceptor.bind(endpoint, error);
  if (!error) state->acceptor.listen(static_cast<int>(state->limits.connections), error);
  if (error == asio::error::address_in_use)
    return fail(Errc::exists,
                "metrics at {}: another process listens there; stop it, or use another port",
                address.address);
  if (error) return fail(Errc::failed, "metrics at {}: {}", address.address, error.message());
  const auto bound = written(state->acceptor.local_endpoint(error));
  spawn(executor, State::accept_all(state));
  return std::unique_ptr<MetricsResponder>(new MetricsResponder(std::move(state), bound));
}

MetricsResponder::MetricsResponder(std::shared_ptr<State> state, std::string address)
    : state_(std::move(state)), address_(std::move(address)) {}

MetricsResponder::~MetricsResponder() {
  state_->page = nullptr;
  error_code ignored;
  state_->acceptor.close(ignored);
}

}  // namespace s3oram
