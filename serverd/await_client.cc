// The server's end of an invitation's link.
#include "serverd/await_client.h"

#include <signal.h>
#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <set>

#include "oramcore/base/async.h"
#include "oramcore/base/codec.h"
#include "oramcore/base/random.h"
#include "oramcore/net/endpoint.h"
#include "oramcore/net/invitation.h"
#include "oramcore/zmq/zmq_transport.h"
#include "serverd/store_files.h"

namespace s3oram {
namespace {

// The time for which the server keeps answering once the client has connected, because an answer
// may be lost and is then requested again. A client that gets no answer assumes that the server
// already serves.
constexpr std::chrono::seconds kGrace{3};

Bytes accepted() { return Bytes(Rpc::kHeaderSize); }

/// Returns the servers of a request. Errors: bad_request (they are not the servers of a volume to
/// which this server belongs).
Result<std::vector<PeerAddress>> servers_of(const PeersRequest& request,
                                            const Invitation& invitation, const PublicKey& own) {
  std::vector<PeerAddress> servers;
  std::set<Party> numbers;
  std::set<PublicKey> keys;
  for (const ByteSpan& text : request.servers) {
    S3O_ASSIGN(auto server, parse_told_peer(std::string(text.begin(), text.end())));
    if (!numbers.insert(server.party).second || !keys.insert(*server.key).second)
      return fail(Errc::bad_request, "a server is listed twice");
    if ((server.party == invitation.server) != (*server.key == own))
      return fail(Errc::bad_request, "server {} should have the key {}, but has {}",
                  invitation.server, to_text(own), to_text(*server.key));
    servers.push_back(std::move(server));
  }
  if (servers.size() != invitation.servers || *numbers.rbegin() != invitation.servers)
    return fail(Errc::bad_request, "{} servers are listed instead of {}", servers.size(),
                invitation.servers);
  return servers;
}

/// Waits on one executor, that of the process's only thread.
class Waiting {
 public:
  Waiting(const Options& options, const Invitation& invitation, const PublicKey& own)
      : options_(options), invitation_(invitation), own_(own) {}

  Result<Joined> run(ServiceManager& manager) {
    ZmqConfig config;
    config.self = invitation_.server;
    config.keys = invitation_.link;
    S3O_ASSIGN(config.listen, parse_endpoint(options_.listen));
    S3O_ASSIGN(config.allow, allowed_networks(options_));
    config.client_keys = {invitation_.client};
    S3O_ASSIGN(const auto transport, make_zmq_transport(io_.get_executor(), config));
    Rpc rpc(io_.get_executor(), clock_, random_, *transport);
    rpc.serve([this](Party, std::uint16_t type, Payload request) {
      return answer(static_cast<JoinMessage>(type), std::move(request));
    });
    asio::signal_set end(io_, SIGTERM, SIGINT);
    const asio::signal_set hangup(io_, SIGHUP);  // ignored, because there is nothing to reread
    end.async_wait([this](const boost::system::error_code& error, int) {
      if (error) return;
      outcome_ = Joined::told_to_stop;
      io_.stop();
    });
    const std::string doing = fmt::format("server {} waits at {} for its client, as it was invited",
                                          invitation_.server, transport->endpoint());
    spdlog::info("{}", doing);
    manager.ready(doing);
    const Watchdog watchdog(io_.get_executor(), manager);
    io_.run();
    return outcome_;
  }

 private:
  Task<Result<Bytes>> answer(JoinMessage type, Payload request) {
    if (type == JoinMessage::greet) {
      Writer writer(Rpc::kHeaderSize);
      writer(GreetAnswer{own_});
      co_return writer.take();
    }
    if (type != JoinMessage::peers) co_return fail(Errc::bad_request, "unknown request");
    PeersRequest told;
    Reader reader(request.body());
    reader(told);
    if (!reader.complete()) co_return fail(Errc::bad_request, "malformed request");
    if (!joined_) S3O_CO_TRY(keep(told));
    co_return accepted();
  }

  /// Stores what the client has sent. From now on the server does not wait when it is started
  /// again.
  Status keep(const PeersRequest& told) {
    S3O_ASSIGN(const auto servers, servers_of(told, invitation_, own_));
    S3O_TRY(add_client(options_.store, invitation_.client));
    S3O_TRY(write_peers(options_.store, servers));
    S3O_TRY(remove_invitation(options_.store));
    joined_ = true;
    spdlog::info("the client has connected, and has named all {} servers", servers.size());
    clock_.call_after(kGrace, [this] { io_.stop(); });
    return {};
  }

  const Options& options_;
  const Invitation& invitation_;
  const PublicKey own_;
  asio::io_context io_{1};
  SystemClock clock_{io_.get_executor()};
  SystemRandom random_;
  bool joined_ = false;
  Joined outcome_ = Joined::yes;
};

}  // namespace

Result<Joined> await_client(const Options& options, ServiceManager& manager) {
  S3O_ASSIGN(const auto invitation, read_invitation(options.store));
  if (!invitation) return Joined::yes;
  S3O_ASSIGN(const auto keys, read_server_key(options.store));
  if (options.listen.empty())
    return fail(Errc::usage, "where to listen is missing: give --listen HOST:PORT");
  return Waiting(options, *invitation, keys.public_key).run(manager);
}

}  // namespace s3oram
