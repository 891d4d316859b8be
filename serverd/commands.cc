// Creates and changes the files in a store: the server's key, its clients, its peers.
#include "serverd/commands.h"

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <set>

#include "oramcore/base/system_error.h"
#include "serverd/store_files.h"

namespace s3oram {
namespace {

Status require_store(const Path& store) {
  std::error_code error;
  if (std::filesystem::is_directory(store, error)) return {};
  return no_store(store);
}

// Checks that these numbers are those of a volume's servers. Otherwise a wrong list would be
// noticed only when a server starts.
Status require_volume(const std::set<Party>& numbers, bool update) {
  const std::size_t last = numbers.empty() ? 1 : *numbers.rbegin();
  std::vector<std::size_t> missing;
  for (std::size_t number = 1; number <= last; ++number)
    if (!numbers.contains(static_cast<Party>(number))) missing.push_back(number);
  if (missing.empty()) return {};
  return fail(Errc::usage,
              "the list lacks {} {}: a volume's servers are numbered from 1 without a gap; give {}",
              missing.size() == 1 ? "server" : "servers", fmt::join(missing, ", "),
              update ? "these too" : "all of them, or --update and those that change");
}

// Refuses a server's key as a client's key, because a server does not start with one.
Status require_no_server(const Path& store, const PublicKey& key) {
  S3O_ASSIGN(const auto servers, read_peers(store));
  for (const auto& server : servers)
    if (server.key == key)
      return fail(Errc::usage, "{}: this is server {}'s key, not a client's", to_text(key),
                  server.party);
  return {};
}

/// Says when a change takes effect: a running server checks its keys every second (run_server.cc).
void say_when_it_counts(const Path& store, std::string_view what, std::ostream& out) {
  if (is_running(store))
    out << "The server on this store runs, and " << what << " within a second or two.\n";
  else
    out << "No server runs on this store now: when one is started, it " << what << ".\n";
}

/// Refuses a list without this server's own key: it belongs to another volume, or was typed wrong.
/// The server would not know its number, or would admit another server under that number.
Status require_own_key(const Path& store, const std::vector<PeerAddress>& servers) {
  std::error_code error;
  if (!std::filesystem::exists(store / "server.key", error)) return {};
  S3O_ASSIGN(const auto own, read_server_key(store));
  for (const PeerAddress& server : servers)
    if (server.key == own.public_key) return {};
  return fail(Errc::usage,
              "none of these servers has this server's own key, {}: list it with its number, "
              "address and that key",
              to_text(own.public_key));
}

}  // namespace

Status keygen(const Path& store, std::ostream& out, bool rotate) {
  if (rotate) {
    const KeyPair keys = generate_key_pair();
    S3O_TRY(replace_server_key(store, keys));
    out << to_text(keys.public_key) << std::endl;
    return {};
  }
  if (::mkdir(store.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(code_of(errno), "store {}: {}{}", store.string(), std::strerror(errno),
                errno == ENOENT ? "; make the directory above it first" : "");
  const KeyPair keys = generate_key_pair();
  if (auto status = create_server_key(store, keys); !status) {
    if (status.error().code != Errc::exists) return status;
    const auto kept = read_server_key(store);
    return fail(Errc::exists,
                "{} is kept as it is{}; give --rotate if you really want a new key for this server",
                status.error().message,
                kept ? ", and its public key is " + to_text(kept->public_key) : "");
  }
  out << to_text(keys.public_key) << std::endl;
  std::cerr << "This is the server's public key: give it to the vault's owner, with the address "
               "that the\n"
               "server will have. When you have the keys of all servers: s3oramfs-serverd peers\n";
  return {};
}

Status authorize(const Path& store, const std::string& key, std::ostream& out) {
  S3O_TRY(require_store(store));
  S3O_ASSIGN(const auto parsed, parse_public_key(key));
  S3O_TRY(require_no_server(store, parsed));
  S3O_TRY(add_client(store, parsed));
  say_when_it_counts(store, "admits this client", out);
  return {};
}

Status revoke(const Path& store, const std::string& key, std::ostream& out) {
  S3O_TRY(require_store(store));
  S3O_ASSIGN(const auto parsed, parse_public_key(key));
  S3O_TRY(remove_client(store, parsed));
  say_when_it_counts(store, "no longer admits this client", out);
  return {};
}

Status peers(const Path& store, const std::vector<std::string>& servers, std::ostream& out,
             bool update) {
  S3O_TRY(require_store(store));
  if (servers.empty()) {
    S3O_ASSIGN(const auto known, read_peers(store));
    for (const auto& peer : known) out << to_text(peer) << "\n";
    return {};
  }
  std::vector<PeerAddress> all;
  std::set<Party> numbers;
  std::set<PublicKey> keys;
  std::set<std::string> endpoints;
  for (const auto& text : servers) {
    S3O_ASSIGN(auto peer, parse_peer(text));
    if (!peer.key)
      return fail(Errc::usage, "server '{}': its public key is missing; write N=HOST:PORT,KEY",
                  text);
    if (!numbers.insert(peer.party).second || !keys.insert(*peer.key).second ||
        !endpoints.insert(peer.endpoint).second)
      return fail(Errc::usage, "server '{}': another server already has its number, address or key",
                  text);
    all.push_back(std::move(peer));
  }
  Result<Descriptor> lock;
  if (update) {
    lock = lock_files(store);
    if (!lock) return fail(lock.error());
    S3O_ASSIGN(const auto known, read_peers(store));
    for (const auto& peer : known) {
      if (!numbers.insert(peer.party).second) continue;
      if ((peer.key && !keys.insert(*peer.key).second) || !endpoints.insert(peer.endpoint).second)
        return fail(Errc::usage, "server {} has the address or key of another server", peer.party);
      all.push_back(peer);
    }
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.party < b.party; });
  }
  S3O_TRY(require_volume(numbers, update));
  S3O_TRY(require_own_key(store, all));
  return write_peers(store, all);
}

}  // namespace s3oram
