// Checks a transport's configuration, so that errors name the server and the reason.
#include "oramcore/zmq/zmq_config.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <set>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/system_error.h"
#include "oramcore/net/endpoint.h"

namespace s3oram {
namespace {

// Refuses an endpoint that is not in the form returned by parse_endpoint().
Status check_endpoint(const std::string& endpoint) {
  S3O_ASSIGN(const auto parsed, parse_endpoint(endpoint));
  if (parsed != endpoint)
    return fail(Errc::usage, "endpoint {}: write {} instead", endpoint, parsed);
  return {};
}

}  // namespace

Status check(const ZmqConfig& config) {
  bool tcp = false;
  if (!config.listen.empty()) {
    S3O_TRY(check_endpoint(config.listen));
    tcp = is_tcp(config.listen);
  }
  if (config.self > kLastServer)
    return fail(Errc::usage, "server number {}: give one from 1 to {}", config.self, kLastServer);
  if ((config.self == kClient) != config.listen.empty())
    return fail(Errc::usage, "party {}: a server listens, and the client (party 0) does not",
                config.self);
  std::set<Party> seen{kClient, config.self};
  for (const auto& peer : config.peers) {
    S3O_TRY(check_endpoint(peer.endpoint));
    if (peer.party > kLastServer || !seen.insert(peer.party).second)
      return fail(Errc::usage,
                  "server {} at {}: give every other server one number of its own, from 1 to {}",
                  peer.party, peer.endpoint, kLastServer);
    if (is_tcp(peer.endpoint) && peer.endpoint.ends_with(":*"))
      return fail(Errc::usage, "server {} at {}: to connect, the port's number is needed",
                  peer.party, peer.endpoint);
    if (is_tcp(peer.endpoint) && !peer.key)
      return fail(Errc::usage,
                  "server {} at {}: its public key is missing; its owner gets it from "
                  "'s3oramfs-serverd keygen'",
                  peer.party, peer.endpoint);
    if (!config.listen.empty() && is_tcp(config.listen) && !peer.key)
      return fail(Errc::usage, "server {} at {}: to admit it at {}, its public key is needed",
                  peer.party, peer.endpoint, config.listen);
    tcp = tcp || is_tcp(peer.endpoint);
  }
  if (tcp && config.keys.secret_key == SecretKey{})
    return fail(Errc::usage, "TCP endpoints need a key pair of our own, and there is none");
  return {};
}

Result<ZapHandler::Admitted> admitted_keys(const ZmqConfig& config,
                                           const std::vector<PublicKey>& clients) {
  ZapHandler::Admitted admitted;
  for (const auto& peer : config.peers) {
    if (!peer.key) continue;
    const auto [at, added] = admitted.emplace(*peer.key, peer.party);
    if (!added)
      return fail(Errc::usage, "servers {} and {} have the same key {}: each needs its own",
                  at->second, peer.party, to_text(*peer.key));
  }
  for (const auto& key : clients) {
    const auto [at, added] = admitted.emplace(key, kClient);
    if (!added && at->second != kClient)
      return fail(Errc::usage,
                  "key {} is both a client's and server {}'s, and each needs its own: end the "
                  "client's with 's3oramfs-serverd revoke'",
                  to_text(key), at->second);
  }
  return admitted;
}

Status check_ipc_free(const std::string& endpoint) {
  const std::string path = ipc_path(endpoint);
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};  // it is free, or bind will fail and say why
  if (!S_ISSOCK(found.st_mode))
    return fail(Errc::exists, "listening on {}: that path exists, and is not a socket", endpoint);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) return system_failure(errno, "listening on {}", endpoint);
  // Only ECONNREFUSED means that nobody listens: EAGAIN comes from a listener whose backlog is
  // full.
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno != ECONNREFUSED)
    return fail(Errc::exists, "listening on {}: another process listens there; stop it first",
                endpoint);
  return {};
}

}  // namespace s3oram
