// Reads and writes the small files in a store's directory.
#include "serverd/store_files.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>
#include <utility>

#include "oramcore/base/durable_file.h"
#include "oramcore/base/human.h"
#include "oramcore/base/system_error.h"
#include "oramcore/net/endpoint.h"

namespace s3oram {
namespace {

constexpr std::size_t kLargestFile = 1 << 20;

Path key_file(const Path& store) { return store / "server.key"; }
Path clients_file(const Path& store) { return store / "clients"; }
Path peers_file(const Path& store) { return store / "peers"; }
Path invitation_file(const Path& store) { return store / "invitation"; }

Result<std::string> read_text(const Path& file) {
  S3O_ASSIGN(auto content, read_small_file(file, kLargestFile));
  std::string text(content.begin(), content.end());
  sodium_memzero(content.data(), content.size());  // the text may be a key
  return text;
}

// Replaces the file's text. Files that root writes belong to the store's owner, who runs the
// server.
Status replace_text(const Path& file, const std::string& text) {
  return write_durably(file, as_bytes(text), FileOwner::of_directory);
}

// Checks that only its owner may read a file with a secret key.
Status check_readers(const Path& file, mode_t mode) {
  if ((mode & (S_IRWXG | S_IRWXO)) == 0) return {};
  return fail(Errc::failed,
              "{}: others may read this key (mode {:04o}): 'chmod 600' it, and make a new key if "
              "someone may have read it",
              file.string(), mode & 07777);
}

// Checks that only its owner may write to the file, because its content decides who may connect.
Status check_writers(const Path& file) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0) return system_failure(errno, "{}", file.string());
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) == 0) return {};
  return fail(Errc::failed,
              "{}: others may write to it (mode {:04o}), and so let themselves in: look through "
              "it, then 'chmod 600' it",
              file.string(), found.st_mode & 07777);
}

// Parses every line that is not empty or a comment. An error names the file and the line. Returns
// an empty list if there is no such file.
template <class T, class Parse>
Result<std::vector<T>> parse_lines(const Path& file, Parse parse) {
  std::vector<T> all;
  std::error_code error;
  if (!std::filesystem::exists(file, error) && !error) return all;
  S3O_TRY(check_writers(file));
  S3O_ASSIGN(const auto text, read_text(file));
  std::istringstream in(text);
  unsigned number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line.empty() || line.front() == '#') continue;
    auto one = parse(line);
    if (!one)
      return fail(one.error().code, "{}: line {}: {}", file.string(), number,
                  printable(one.error().message));
    all.push_back(std::move(*one));
  }
  return all;
}

}  // namespace

tl::unexpected<Error> no_store(const Path& store) {
  return fail(Errc::usage,
              "store {}: no such directory; 's3oramfs-serverd keygen --store {}' makes it",
              store.string(), shell_word(store));
}

Result<Descriptor> lock_store(const Path& store) {
  const Path file = store / "lock";
  Descriptor lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.get() < 0) {
    if (errno == ENOTDIR)
      return fail(Errc::usage, "store {}: it is not a directory", store.string());
    if (errno == ENOENT) return no_store(store);
    return system_failure(errno, "{}", file.string());
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK)
    return fail(Errc::vault_in_use, "store {}: another server runs on this store; stop it first",
                store.string());
  return system_failure(errno, "{}: locking", file.string());
}

bool is_running(const Path& store) {
  const auto lock = lock_store(store);
  return !lock && lock.error().code == Errc::vault_in_use;
}

Result<Descriptor> lock_files(const Path& store) {
  Descriptor lock(::open(store.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.get() < 0) return system_failure(errno, "store {}", store.string());
  while (::flock(lock.get(), LOCK_EX) != 0)
    if (errno != EINTR) break;  // the file system cannot lock directories: continue without a lock
  return lock;
}

Result<KeyPair> read_server_key(const Path& store) {
  const Path file = key_file(store);
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0)
    return fail(errno == ENOENT ? Errc::usage : Errc::failed,
                "{}: {}; 's3oramfs-serverd keygen --store {}' makes the server's key",
                file.string(), std::strerror(errno), shell_word(store));
  S3O_TRY(check_readers(file, found.st_mode));
  auto text = read_text(file);  // parsed in place, so that no copy of the secret is left behind
  if (!text) return fail(text.error());
  auto line = text->substr(0, text->find('\n'));
  auto secret = parse_public_key(line);
  sodium_memzero(text->data(), text->size());
  sodium_memzero(line.data(), line.size());
  // The message of parse_public_key would show the secret.
  if (!secret)
    return fail(Errc::failed, "{} does not hold a key; restore it from a copy", file.string());
  KeyPair keys = key_pair_of(*secret);
  sodium_memzero(secret->data(), secret->size());
  return keys;
}

Status create_server_key(const Path& store, const KeyPair& keys) {
  std::string text = to_text(keys.secret_key) + "\n";
  auto status = create_durably(key_file(store), as_bytes(text), FileOwner::of_directory);
  sodium_memzero(text.data(), text.size());
  return status;
}

Status replace_server_key(const Path& store, const KeyPair& keys) {
  if (const auto former = read_server_key(store); !former) return fail(former.error());
  std::string text = to_text(keys.secret_key) + "\n";
  auto status = replace_text(key_file(store), text);
  sodium_memzero(text.data(), text.size());
  return status;
}

Result<std::vector<PublicKey>> read_clients(const Path& store) {
  return parse_lines<PublicKey>(clients_file(store), parse_public_key);
}

Status add_client(const Path& store, const PublicKey& key) {
  S3O_ASSIGN(const auto lock, lock_files(store));
  const Path file = clients_file(store);
  S3O_ASSIGN(const auto clients, read_clients(store));
  if (std::find(clients.begin(), clients.end(), key) != clients.end()) return {};
  std::string text;  // the file as it is, with its comments
  if (std::error_code error; std::filesystem::exists(file, error)) {
    S3O_ASSIGN(auto before, read_text(file));
    text = std::move(before);
    if (!text.empty() && text.back() != '\n') text += '\n';
  }
  return replace_text(file, text + to_text(key) + "\n");
}

Status remove_client(const Path& store, const PublicKey& key) {
  S3O_ASSIGN(const auto lock, lock_files(store));
  const Path file = clients_file(store);
  S3O_ASSIGN(const auto clients, read_clients(store));
  if (std::find(clients.begin(), clients.end(), key) == clients.end())
    return fail(Errc::usage, "{}: no client has the key {}", file.string(), to_text(key));
  S3O_ASSIGN(const auto before, read_text(file));
  std::string text;  // the file as it is, with its comments
  std::istringstream lines(before);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with(to_text(key))) text += line + "\n";
  return replace_text(file, text);
}

Result<PeerAddress> parse_peer(const std::string& text) {
  const auto equals = text.find('=');
  unsigned number = 0;
  const char* begin = text.data();
  const char* end = begin + std::min(equals, text.size());
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (equals == std::string::npos || error != std::errc() || stop != end || number < 1 ||
      number > kLastServer)
    return fail(Errc::usage, "server '{}': write N=HOST:PORT,KEY with N from 1 to {}",
                printable(text), kLastServer);
  PeerAddress peer;
  peer.party = static_cast<Party>(number);
  const auto rest = text.substr(equals + 1);
  const auto comma = rest.find(',');
  S3O_ASSIGN(auto endpoint, parse_endpoint(rest.substr(0, comma)));
  peer.endpoint = std::move(endpoint);
  if (comma != std::string::npos) {
    const auto key = parse_public_key(rest.substr(comma + 1));
    if (!key) return fail(Errc::usage, "server {}: {}", number, key.error().message);
    peer.key = *key;
  }
  return peer;
}

Result<PeerAddress> parse_told_peer(const std::string& text) {
  S3O_ASSIGN(auto peer, parse_peer(text));
  if (!peer.key || !is_tcp(peer.endpoint))
    return fail(Errc::usage, "server '{}': write N=HOST:PORT,KEY", printable(text));
  return peer;
}

std::string to_text(const PeerAddress& peer) {
  constexpr std::string_view kTcp = "tcp://";
  const auto endpoint = is_tcp(peer.endpoint) ? peer.endpoint.substr(kTcp.size()) : peer.endpoint;
  return fmt::format("{}={}{}", peer.party, endpoint, peer.key ? "," + to_text(*peer.key) : "");
}

Result<std::vector<PeerAddress>> read_peers(const Path& store) {
  return parse_lines<PeerAddress>(peers_file(store), parse_peer);
}

Status write_peers(const Path& store, const std::vector<PeerAddress>& peers) {
  std::string text;
  for (const auto& peer : peers) text += to_text(peer) + "\n";
  return replace_text(peers_file(store), text);
}

Result<std::optional<Invitation>> read_invitation(const Path& store) {
  const Path file = invitation_file(store);
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0) {
    if (errno == ENOENT) return std::optional<Invitation>();
    return system_failure(errno, "{}", file.string());
  }
  S3O_TRY(check_readers(file, found.st_mode));
  S3O_ASSIGN(auto text, read_text(file));
  auto invitation = parse_invitation(text);
  sodium_memzero(text.data(), text.size());
  if (!invitation)
    return fail(Errc::usage, "{}: not an invitation; run s3oramfs-serverd join again",
                file.string());
  return std::optional<Invitation>(std::move(*invitation));
}

Status write_invitation(const Path& store, const Invitation& invitation) {
  std::string text = to_text(invitation) + "\n";
  auto status = replace_text(invitation_file(store), text);
  sodium_memzero(text.data(), text.size());
  return status;
}

Status remove_invitation(const Path& store) {
  std::error_code error;
  std::filesystem::remove(invitation_file(store), error);
  if (error)
    return system_failure(error.value(), "{}: removing it", invitation_file(store).string());
  return sync_directory(store);
}

}  // namespace s3oram
