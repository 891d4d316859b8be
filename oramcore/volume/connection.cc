// Starts the transport, waits for the servers, and names them in messages.
#include "oramcore/volume/connection.h"

#include <netdb.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "oramcore/base/human.h"
#include "oramcore/base/system_error.h"
#include "oramcore/base/threads.h"
#include "oramcore/schemes/registry.h"
#include "oramcore/vault/advice.h"

namespace s3oram {
namespace {

constexpr Duration kAskAgain = std::chrono::milliseconds(250);
constexpr std::string_view kNotKnown =
    "know this client's key: authorize it there with `s3oramfs-serverd authorize --store DIR KEY`";

/// Returns why the name in HOST:PORT has no address; empty if it has one. Makes DNS queries.
std::string why_unresolved(const std::string& host_port) {
  std::string host = host_port.substr(0, host_port.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (error == 0) ::freeaddrinfo(found);
  return error == 0 ? "" : ::gai_strerror(error);
}

}  // namespace

Result<std::shared_ptr<NetworkThread>> NetworkThread::start() {
  std::shared_ptr<NetworkThread> made(new NetworkThread);
  auto thread = start_thread("the connection to the servers", [io = &made->io_] { io->run(); });
  if (!thread) return fail(std::move(thread).error());
  made->thread_ = std::move(*thread);
  return made;
}

NetworkThread::~NetworkThread() {
  guard_.reset();
  if (thread_.joinable()) thread_.join();
}

Result<std::unique_ptr<Connection>> Connection::make(const Vault& vault, const VaultKeys& keys,
                                                     const VolumeOptions& options,
                                                     std::shared_ptr<NetworkThread> thread) {
  if (!thread) {
    S3O_ASSIGN(thread, NetworkThread::start());
  }
  std::unique_ptr<Connection> connection(new Connection(vault, std::move(thread)));
  S3O_TRY(connection->start(vault, keys, options));
  return connection;
}

Connection::Connection(const Vault& vault, std::shared_ptr<NetworkThread> thread)
    : config_(vault.config()),
      directory_(vault.directory()),
      which_(vault.is_source() ? "source " : ""),
      thread_(std::move(thread)) {}

Connection::~Connection() {
  on_thread([this] { transport_.reset(); });
}

Status Connection::start(const Vault& vault, const VaultKeys& keys, const VolumeOptions& options) {
  if (config_.local) S3O_TRY(start_local_servers(vault, options));
  ZmqConfig config;
  config.keys = keys_ = keys.curve;
  config.largest_message = volume_kind(config_.params).largest_message(config_.params);
  for (Party server = 1; server <= servers(); ++server) {
    if (config_.local) {
      config.peers.push_back({server, "ipc://" + vault.socket(server), std::nullopt});
    } else {
      const ServerAddress& address = config_.servers[server - 1];
      config.peers.push_back({server, "tcp://" + address.host_port, address.key});
    }
  }
  return on_thread([&]() -> Status {
    S3O_ASSIGN(auto transport, make_zmq_transport(executor(), config));
    transport_ = std::move(transport);
    return {};
  });
}

Status Connection::start_local_servers(const Vault& vault, const VolumeOptions& options) {
  for (Party server = 1; server <= servers(); ++server)
    if (std::error_code error; !std::filesystem::is_directory(vault.store(server), error))
      return fail(Errc::wrong_volume, "{}: the store of this server is gone; {}",
                  vault.store(server).string(),
                  advice_on_store(config_.params, server, vault.directory()));
  S3O_ASSIGN(auto local, LocalServers::start(options.serverd, vault.directory(), servers(), {},
                                             options.record));
  local_.emplace(std::move(local));
  // The paths of unix sockets are limited in length, so they are relative to a directory.
  if (::chdir(vault.sockets_directory().c_str()) != 0)
    return system_failure(errno, "{}", vault.sockets_directory().string());
  return {};
}

Task<Status> Connection::await_servers(Servers& servers, const VolumeOptions& options,
                                       unsigned enough, Duration grace) {
  const Duration begun = clock().now(), deadline = begun + options.deadline;
  bool refused_before = false;
  while (true) {
    const auto each = co_await servers.hello_each(kAskAgain);
    std::vector<HelloAnswer> hellos;
    for (const auto& hello : each)
      if (hello)
        hellos.push_back(*hello);
      else if (hello.error().code != Errc::unreachable)
        co_return fail(hello.error());
    const bool so_many = hellos.size() >= enough && clock().now() - begun >= grace;
    if (hellos.size() == each.size() || so_many) co_return check_numbers(hellos);
    std::vector<Party> silent, refusing;
    bool all_known = true;
    for (Party server = 1; server <= servers.count(); ++server) {
      const PeerState state = transport_->state(server);
      if (state == PeerState::refused) refusing.push_back(server);
      if (!servers.answering(server)) silent.push_back(server);
      all_known = all_known && (state != PeerState::connecting || servers.answering(server));
    }
    // Other servers may be about to refuse the key too, so they are reported together.
    if (!refusing.empty() && (all_known || std::exchange(refused_before, true))) {
      if (options.progress) options.progress(names(refusing) + " must admit this client's key");
      co_return fail(Errc::refused_key, "{} {} not {}", names(refusing),
                     refusing.size() == 1 ? "does" : "do", kNotKnown);
    }
    if (clock().now() >= deadline)
      co_return fail(Errc::unreachable,
                     "no answer from {}: check that s3oramfs-serverd runs there, that the "
                     "address and key are right, and that the port can be reached",
                     names(silent, Lookup::yes));
    if (options.progress) options.progress("waiting for " + names(silent));
  }
}

Status Connection::check_numbers(const std::vector<HelloAnswer>& hellos) const {
  for (const HelloAnswer& hello : hellos) {
    if (!hello.volume || hello.volume->id != config_.volume) continue;  // checked elsewhere
    if (const std::string other = difference(config_.params, hello.volume->params); !other.empty())
      return fail(Errc::damaged_vault,
                  "{}: vault.json says {}, as {} does; bring back the right one, or run s3oramfs "
                  "restore --from FILE",
                  directory_.string(), other, name(hello.server));
  }
  return {};
}

Status Connection::check_newcomer(Party server, const ServerAddress& address, Duration patience) {
  Status met = run([&] { return greet(server, address, patience); });
  if (met) return met;
  return fail(met.error().code, "the new server {} at {}: {}", server, address.host_port,
              met.error().message);
}

Task<Status> Connection::greet(Party server, const ServerAddress& address, Duration patience) {
  ZmqConfig config;
  config.keys = keys_;
  config.peers.push_back({server, "tcp://" + address.host_port, address.key});
  S3O_CO_ASSIGN(const auto transport, make_zmq_transport(executor(), config));
  Servers alone(executor(), clock(), random(), *transport, config_.volume, server);
  const Duration until = clock().now() + patience;
  for (;;) {
    const auto hello = co_await alone.hello_one(server, kAskAgain);
    if (hello && hello->volume && hello->volume->id != config_.volume)
      co_return fail(Errc::wrong_volume, "it holds another volume; give it an empty store");
    if (hello) co_return Status{};
    if (hello.error().code != Errc::unreachable) co_return fail(hello.error());
    if (transport->state(server) == PeerState::refused)
      co_return fail(Errc::refused_key, "it does not {}", kNotKnown);
    if (clock().now() < until) continue;
    if (transport->state(server) == PeerState::insecure)
      co_return fail(Errc::unreachable,
                     "it has a different key, hangs, or is not an s3oramfs-serverd");
    co_return fail(Errc::unreachable,
                   "no answer: check that s3oramfs-serverd runs there, and that the port can be "
                   "reached");
  }
}

Status Connection::exchange(Vault& vault, Party server, const ServerAddress& address) {
  S3O_TRY(vault.set_server(server, address));
  config_.servers[server - 1] = address;
  return transport_->set_peer({server, "tcp://" + address.host_port, address.key});
}

std::string Connection::refusal(Party server) const {
  switch (transport_->state(server)) {
    case PeerState::refused:
      return fmt::format("does not {}", kNotKnown);
    case PeerState::insecure:
      return "has a different key than the vault says, hangs, or is not an s3oramfs-serverd";
    default:
      break;
  }
  const std::string end = local_ ? local_->end(server) : "";
  return end.empty() ? "" : "ended by itself " + end;
}

std::string Connection::name(Party server) const {
  return config_.local ? fmt::format("{}server {}", which_, server)
                       : fmt::format("{}server {} ({})", which_, server,
                                     config_.servers[server - 1].host_port);
}

std::string Connection::names(const std::vector<Party>& servers, Lookup lookup) const {
  std::string all;
  for (const Party server : servers) {
    std::string aside = config_.local ? "" : config_.servers[server - 1].host_port;
    if (transport_->state(server) == PeerState::insecure)
      aside += (aside.empty() ? "it " : "; it ") + refusal(server);
    else if (const std::string why =
                 lookup == Lookup::yes && !aside.empty() ? why_unresolved(aside) : "";
             !why.empty())
      aside += "; this name does not resolve: " + why;
    all += fmt::format("{}{}", all.empty() ? "" : ", ", server);
    if (!aside.empty()) all += " (" + aside + ")";
  }
  return which_ + (servers.size() == 1 ? "server " : "servers ") + all;
}

std::string Connection::with_remedy(std::string message) const {
  constexpr std::string_view kRepair = "run s3oramfs repair";
  if (const auto at = message.find(kRepair); at != std::string::npos && !which_.empty())
    message.insert(at + kRepair.size(), " --source");
  return message;
}

std::string Connection::named(std::string message) const {
  for (Party server = 1; server <= servers(); ++server) {
    const std::string number = fmt::format("server {}", server);
    const auto at = message.find(number);
    if (at != std::string::npos && message.find(name(server)) == std::string::npos)
      message.replace(at, number.size(), name(server));
  }
  return with_remedy(std::move(message));
}

Status Connection::explain(Status status) const {
  if (status) return status;
  return fail(status.error().code, "{}: {}", directory_.string(), named(status.error().message));
}

}  // namespace s3oram
