// The client's end of the links of invitations.
#include "cli/gather.h"

#include <fmt/ranges.h>
#include <sodium.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <iostream>
#include <map>
#include <optional>

#include "oramcore/base/codec.h"
#include "oramcore/zmq/zmq_transport.h"

namespace s3oram {
namespace {

constexpr Duration kGreetPatience = std::chrono::seconds(2);
constexpr Duration kTellPatience = std::chrono::seconds(5);

/// The links to all servers of a vault that may still wait for their client. Everything happens on
/// the calling thread.
class JoinLinks {
 public:
  static Result<std::unique_ptr<JoinLinks>> open(const Vault& vault, const VaultKeys& keys) {
    std::unique_ptr<JoinLinks> links(new JoinLinks);
    ZmqConfig config;
    config.keys = keys.curve;
    Party number = 0;
    for (const ServerAddress& server : vault.config().servers) {
      ++number;
      config.peers.push_back({number, "tcp://" + server.host_port,
                              invitation_link(keys.curve.secret_key, number).public_key});
    }
    S3O_ASSIGN(links->transport_, make_zmq_transport(links->io_.get_executor(), config));
    links->rpc_ = std::make_unique<Rpc>(links->io_.get_executor(), links->clock_, links->random_,
                                        *links->transport_);
    return links;
  }

  /// Returns the keys of those of `servers` that answer.
  std::map<Party, PublicKey> greet(const std::vector<Party>& servers) {
    const auto answers = ask(servers, JoinMessage::greet, Bytes(Rpc::kHeaderSize), kGreetPatience);
    std::map<Party, PublicKey> keys;
    for (std::size_t i = 0; i < servers.size(); ++i) {
      if (!answers[i]) continue;
      GreetAnswer answer;
      Reader reader(answers[i]->body());
      reader(answer);
      if (reader.complete()) keys[servers[i]] = answer.key;
    }
    return keys;
  }

  /// Tells the servers about all servers. A server that does not answer serves already, or is
  /// missed when the volume is made.
  Status tell(const std::vector<Party>& servers, const PeersRequest& peers) {
    Writer writer(Rpc::kHeaderSize);
    writer(peers);
    const auto answers = ask(servers, JoinMessage::peers, writer.take(), kTellPatience);
    for (std::size_t i = 0; i < servers.size(); ++i)
      if (!answers[i] && answers[i].error().code != Errc::unreachable)
        return fail(answers[i].error());
    return {};
  }

 private:
  using Answers = std::vector<Result<Payload>>;
  JoinLinks() = default;

  static Task<void> ask_all(Rpc& rpc, std::vector<Party> servers, JoinMessage type, Bytes request,
                            Duration patience, std::optional<Answers>& to, asio::io_context& io) {
    std::vector<Task<Result<Payload>>> calls;
    for (const Party server : servers) calls.push_back(rpc.call(server, type, request, patience));
    to = co_await all(std::move(calls));
    io.stop();
  }

  Answers ask(const std::vector<Party>& servers, JoinMessage type, Bytes request,
              Duration patience) {
    std::optional<Answers> answers;
    spawn(io_.get_executor(),
          ask_all(*rpc_, servers, type, std::move(request), patience, answers, io_));
    io_.restart();
    io_.run();
    return std::move(*answers);
  }

  asio::io_context io_{1};
  SystemClock clock_{io_.get_executor()};
  SystemRandom random_;
  std::unique_ptr<ZmqTransport> transport_;
  std::unique_ptr<Rpc> rpc_;
};

/// Returns the servers that have joined, or those that have not.
std::vector<Party> servers_of(const Vault& vault, bool joined) {
  const VaultConfig& config = vault.config();
  std::vector<Party> found;
  for (Party number = 1; number <= config.servers.size(); ++number)
    if ((config.servers[number - 1u].key != unknown_key(config.volume, number)) == joined)
      found.push_back(number);
  return found;
}
std::vector<Party> missing_in(const Vault& vault) { return servers_of(vault, false); }

std::vector<Invitation> invitations_to(const std::vector<Party>& servers, const Vault& vault,
                                       const KeyPair& client) {
  std::vector<Invitation> all;
  for (const Party number : servers)
    all.push_back({number, static_cast<Party>(vault.config().servers.size()),
                   vault.config().servers[number - 1u].host_port, client.public_key,
                   invitation_link(client.secret_key, number)});
  return all;
}

std::string names_of(const std::vector<Party>& servers, const Vault& vault) {
  std::vector<std::string> names;
  for (const Party number : servers)
    names.push_back(
        fmt::format("{} ({})", unsigned{number}, vault.config().servers[number - 1u].host_port));
  return fmt::format("server{} {}", servers.size() == 1 ? "" : "s", fmt::join(names, ", "));
}

/// Stores the keys of the servers that have joined, and prints what to compare for each.
Status take_keys(Vault& vault, const PublicKey& client, const std::map<Party, PublicKey>& keys) {
  for (const auto& [number, key] : keys) {
    const std::string address = vault.config().servers[number - 1u].host_port;
    S3O_TRY(vault.set_server(number, {address, key}));
    std::cout << fmt::format("Server {} ({}) has joined. Compare by telephone: {}\n",
                             unsigned{number}, address, fingerprint(client, key))
              << std::flush;
  }
  return {};
}

Status tell_all(JoinLinks& links, const Vault& vault) {
  std::vector<std::string> texts;
  std::vector<Party> servers;
  for (const ServerAddress& server : vault.config().servers) {
    servers.push_back(static_cast<Party>(servers.size() + 1));
    texts.push_back(
        fmt::format("{}={},{}", unsigned{servers.back()}, server.host_port, to_text(server.key)));
  }
  PeersRequest request;
  for (const std::string& text : texts) request.servers.push_back(as_bytes(text));
  return links.tell(servers, request);
}

}  // namespace

PublicKey unknown_key(const VolumeId& volume, Party server) {
  Bytes what(volume.begin(), volume.end());
  what.push_back(server);
  PublicKey key;
  crypto_generichash(key.data(), key.size(), what.data(), what.size(), nullptr, 0);
  return key;
}

Status gather_servers(Vault& vault, const VaultKeys& keys, const Patience& patience,
                      const Deliver& deliver) {
  using std::chrono::seconds, std::chrono::steady_clock;
  std::vector<Party> missing = missing_in(vault);
  S3O_TRY(deliver(invitations_to(missing, vault, keys.curve),
                  invitations_to(servers_of(vault, true), vault, keys.curve)));
  S3O_ASSIGN(const auto links, JoinLinks::open(vault, keys));
  const auto start = steady_clock::now();
  const bool for_ever = patience.wait < 0 && at_terminal();
  Progress progress("waiting for servers to join");
  while (!missing.empty()) {
    S3O_TRY(take_keys(vault, keys.curve.public_key, links->greet(missing)));
    missing = missing_in(vault);
    if (missing.empty()) break;
    if (!for_ever && steady_clock::now() - start >= seconds(std::max(patience.wait, 0)))
      return fail(
          Errc::unreachable,
          "not joined yet: {}; {} is kept: run the same command again once they have joined, and "
          "check that their ports can be reached",
          names_of(missing, vault), vault.directory().string());
    progress.update(names_of(missing, vault));
  }
  return tell_all(*links, vault);
}

Status deliver_again(const Vault& vault, const VaultKeys& keys, const Deliver& deliver) {
  return deliver({}, invitations_to(servers_of(vault, true), vault, keys.curve));
}

}  // namespace s3oram
