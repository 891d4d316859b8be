// The files in a server's store directory (0700), beside the shares:
//   lock         locked while a server runs on the store
//   server.key   the server's secret CURVE key, 0600, as one line of base64url
//   clients      the public keys that may connect as the client, one a line
//   invitation   the string of s3oramfs-serverd join, until this server's client has connected
//   peers        all servers of the volume, "N=HOST:PORT,KEY" a line; this one may be among them
// Empty lines and lines that begin with # are skipped. A server without TCP needs no file but lock.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/error.h"
#include "oramcore/net/invitation.h"
#include "oramcore/zmq/zmq_transport.h"

namespace s3oram {

using Path = std::filesystem::path;

/// Returns the error that there is no such directory, with advice on how to create it.
tl::unexpected<Error> no_store(const Path& store);

/// Locks the store as long as the result lives. Errors: vault_in_use (another server runs on this
/// store), usage (there is no such store), disk_full, failed.
Result<Descriptor> lock_store(const Path& store);

/// Returns whether a server runs on this store.
bool is_running(const Path& store);

/// Waits for the lock that must be held while a file below is read and rewritten, so that no other
/// process's change is lost.
Result<Descriptor> lock_files(const Path& store);

/// Returns the server's key. Refuses a key that users other than its owner may read. Errors:
/// failed, usage.
Result<KeyPair> read_server_key(const Path& store);
/// Errors: exists.
Status create_server_key(const Path& store, const KeyPair& keys);
/// Errors: usage (there is no key).
Status replace_server_key(const Path& store, const KeyPair& keys);

/// Returns an empty list if there is no such file.
Result<std::vector<PublicKey>> read_clients(const Path& store);
/// Does nothing if the key is in the file already.
Status add_client(const Path& store, const PublicKey& key);
/// Errors: usage (the key is not in the file).
Status remove_client(const Path& store, const PublicKey& key);

/// Parses "N=ENDPOINT[,KEY]", with the endpoint as parse_endpoint() takes it. Errors: usage.
Result<PeerAddress> parse_peer(const std::string& text);
/// Does the same for what a client sends. Refuses a server without a key and a path of a unix
/// socket, because a client has no business with the sockets of the server's machine.
Result<PeerAddress> parse_told_peer(const std::string& text);
std::string to_text(const PeerAddress& peer);
/// Returns an empty list if there is no such file.
Result<std::vector<PeerAddress>> read_peers(const Path& store);
Status write_peers(const Path& store, const std::vector<PeerAddress>& peers);

/// Returns std::nullopt if there is no invitation. Refuses a file that users other than its owner
/// may read.
Result<std::optional<Invitation>> read_invitation(const Path& store);
Status write_invitation(const Path& store, const Invitation& invitation);
/// Removes the invitation durably.
Status remove_invitation(const Path& store);

}  // namespace s3oram
