// Reads and checks a server's options and configuration file.
#include "serverd/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>

#include "oramcore/base/config_file.h"
#include "oramcore/base/help.h"
#include "oramcore/net/endpoint.h"
#include "oramcore/zmq/allow_list.h"
#include "serverd/store_files.h"

namespace s3oram {
namespace {

constexpr std::uint64_t kLeastCache = std::uint64_t{1} << 20, kMostCache = std::uint64_t{1} << 40;
constexpr unsigned kMostThreads = 256;
constexpr std::uint64_t kLeastRecord = 4096;

// Returns all known servers. Those of the command line override those of the store.
Result<std::map<Party, PeerAddress>> known_servers(const Options& options) {
  std::map<Party, PeerAddress> servers;
  for (const auto& text : options.peers) {
    auto peer = parse_peer(text);
    if (!peer) return fail(peer.error().code, "--peer: {}", peer.error().message);
    const Party party = peer->party;
    if (!servers.emplace(party, std::move(*peer)).second)
      return fail(Errc::usage, "--peer: server {} is given twice", party);
  }
  S3O_ASSIGN(const auto stored, read_peers(options.store));
  for (const auto& peer : stored) servers.emplace(peer.party, peer);
  return servers;
}

Result<Party> own_number(const Options& options, const std::map<Party, PeerAddress>& servers,
                         const PublicKey& key) {
  const auto self = std::find_if(servers.begin(), servers.end(),
                                 [&](const auto& server) { return server.second.key == key; });
  const auto twice = self == servers.end()
                         ? self
                         : std::find_if(std::next(self), servers.end(), [&](const auto& server) {
                             return server.second.key == key;
                           });
  if (twice != servers.end())
    return fail(Errc::usage,
                "servers {} and {} have the same key in the list of servers, {}, which is this "
                "server's: each has its own; correct the list with 's3oramfs-serverd peers'",
                self->first, twice->first, to_text(key));
  if (!options.index) {
    if (self == servers.end())
      return fail(Errc::usage,
                  "this server's number is not known: give --index N, or list it with its key {} "
                  "by 's3oramfs-serverd peers'",
                  to_text(key));
    return self->first;
  }
  if (*options.index == 0 || *options.index > kLastServer)
    return fail(Errc::usage, "--index {}: give the server's number, from 1 to {}", *options.index,
                kLastServer);
  const auto index = static_cast<Party>(*options.index);
  const auto listed = servers.find(index);
  const bool other_key = listed != servers.end() && listed->second.key && listed->second.key != key;
  const bool other_number = self != servers.end() && self->first != index;
  if (other_key || other_number)
    return fail(
        Errc::usage,
        "--index {}: this server's key {} is {} in the list of servers ({} and --peer); give the "
        "number that belongs to it, or correct the list with 's3oramfs-serverd peers'",
        *options.index, to_text(key),
        other_number ? fmt::format("that of server {}", self->first)
                     : fmt::format("not that of server {}", index),
        (Path(options.store) / "peers").string());
  return index;
}

// Makes a validator of a parser. The parser's message becomes the validator's.
template <class T>
CLI::Validator by(Result<T> (*parse)(const std::string&)) {
  return {[parse](std::string& text) {
            const auto parsed = parse(text);
            return parsed ? std::string() : parsed.error().message;
          },
          ""};
}

// Checks only that the file exists and is no directory. Other errors are reported when it is read.
std::string why_no_file(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status))
    return path + " is a directory: give the file that is in it";
  return std::filesystem::exists(status) ? "" : path + ": " + error.message();
}

}  // namespace

void add_options(CLI::App& app, Options& options) {
  app.set_config("--config", "", "Read options from FILE, as listen = \"HOST:PORT\"")
      ->check(CLI::Validator(why_no_file, ""))
      ->type_name("FILE");
  const auto trial = [](const std::string& option) {
    Options ignored;
    CLI::App app_of_one;
    add_options(app_of_one, ignored);
    app_of_one.parse(std::vector<std::string>{option});
  };
  app.config_formatter(std::make_shared<ConfigFile>(app, trial, "s3oramfs-serverd --help"));
  app.allow_config_extras(false);
  app.add_option("--store", options.store, "Directory with this server's shares and keys")
      ->type_name("DIR");
  app.add_option("--index", options.index, "This server's number; default: found by its key")
      ->type_name("N");
  app.add_option("--listen", options.listen, "Where to listen: HOST:PORT, *:PORT or ipc://PATH")
      ->check(by(parse_endpoint))
      ->type_name("ENDPOINT");
  app.add_option("--peer", options.peers, "A server that 'peers' does not list; repeatable")
      ->check(by(parse_peer))
      ->type_name("N=ENDPOINT[,KEY]")
      ->allow_extra_args(false);
  app.add_option("--allow", options.allow, "An address or network that may connect; repeatable")
      ->check(by(parse_network))
      ->type_name("NETWORK")
      ->allow_extra_args(false);
  app.add_flag("--exit-with-parent", options.exit_with_parent,
               "Stop when the process that started this one ends");
  app.add_option("--ready-fd", options.ready_fd, "Write a byte to this descriptor when listening")
      ->check(CLI::Range(0, 1 << 20))
      ->type_name("N");
  app.add_option("--threads", options.threads, "Threads for arithmetic and disk; default: per core")
      ->check(CLI::Range(1U, kMostThreads))
      ->type_name("N");
  app.add_option("--cache", options.cache, "Memory for buckets; default: by available memory")
      ->transform(size_from(kLeastCache, kMostCache))
      ->type_name("SIZE");
  app.add_option("--log-level", options.log_level,
                 "trace, debug, info, warning, error, critical or off")
      ->capture_default_str()
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "critical", "off"})
                  .description(""))
      ->type_name("LEVEL");
  app.add_option("--metrics", options.metrics, "Metrics for Prometheus, like 127.0.0.1:9752")
      ->type_name("ADDRESS:PORT");
  app.add_flag("--metrics-public", options.metrics_public,
               "Allow an address that other machines can reach");
  app.add_option("--record", options.record, "Record every read and write of slots in FILE")
      ->type_name("FILE");
  app.add_option("--record-limit", options.record_limit, "Largest size of that file")
      ->transform(size_from(kLeastRecord))
      ->default_str(short_size(options.record_limit))
      ->type_name("SIZE");
}

Result<std::vector<Network>> allowed_networks(const Options& options) {
  std::vector<Network> allowed;
  for (const auto& text : options.allow) {
    auto network = parse_network(text);
    if (!network) return fail(network.error().code, "--allow: {}", network.error().message);
    allowed.push_back(*network);
  }
  return allowed;
}

Result<ZmqConfig> network_config(const Options& options) {
  ZmqConfig config;
  if (options.listen.empty())
    return fail(Errc::usage, "where to listen is missing: give --listen HOST:PORT");
  auto listen = parse_endpoint(options.listen);
  if (!listen) return fail(listen.error().code, "--listen: {}", listen.error().message);
  config.listen = std::move(*listen);

  if (!options.allow.empty() && !is_tcp(config.listen))
    return fail(Errc::usage, "--allow: {} is not reached over a network", config.listen);
  S3O_ASSIGN(config.allow, allowed_networks(options));

  S3O_ASSIGN(auto servers, known_servers(options));
  const bool tcp = is_tcp(config.listen) ||
                   std::any_of(servers.begin(), servers.end(),
                               [](const auto& server) { return is_tcp(server.second.endpoint); });
  if (tcp) {
    S3O_ASSIGN(auto keys, read_server_key(options.store));
    config.keys = keys;
    S3O_ASSIGN(auto clients, read_clients(options.store));
    config.client_keys = std::move(clients);
  }
  S3O_ASSIGN(const auto self, own_number(options, servers, config.keys.public_key));
  config.self = self;
  servers.erase(self);
  for (auto& [party, peer] : servers) config.peers.push_back(std::move(peer));
  return config;
}

}  // namespace s3oram
