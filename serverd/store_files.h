// What a server's store directory (0700) holds beside the shares:
//   lock         locked while a server runs on the store
//   server.key   the server's secret CURVE key, 0600, as one line of base64url
//   clients      the public keys that may connect as the client, one a line
//   invitation   what this server was invited by, until its client has come (s3oramfs-serverd join)
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

/// That there is no such directory, and what makes it.
tl::unexpected<Error> no_store(const Path& store);

/// The lock, held while it lives. Errors: vault_in_use (another server runs on this store), usage
/// (there is none), disk_full, failed.
Result<Descriptor> lock_store(const Path& store);

/// Whether a server runs on this store.
bool is_running(const Path& store);

/// Held while a file below is read and written again, so that no other process's change is lost.
/// Waits for it.
Result<Descriptor> lock_files(const Path& store);

/// Refuses a key that others than its owner may read. Errors: failed, usage.
Result<KeyPair> read_server_key(const Path& store);
/// Errors: exists.
Status create_server_key(const Path& store, const KeyPair& keys);
/// Errors: usage (there is none).
Status replace_server_key(const Path& store, const KeyPair& keys);

/// Empty if there is no such file.
Result<std::vector<PublicKey>> read_clients(const Path& store);
/// Does nothing if it is there already.
Status add_client(const Path& store, const PublicKey& key);
/// Errors: usage (it is not there).
Status remove_client(const Path& store, const PublicKey& key);

/// "N=ENDPOINT[,KEY]", the endpoint as parse_endpoint takes it. Errors: usage.
Result<PeerAddress> parse_peer(const std::string& text);
std::string to_text(const PeerAddress& peer);
/// Empty if there is no such file.
Result<std::vector<PeerAddress>> read_peers(const Path& store);
Status write_peers(const Path& store, const std::vector<PeerAddress>& peers);

/// Returns std::nullopt if there is none. Refuses a file that users other than its owner may read.
Result<std::optional<Invitation>> read_invitation(const Path& store);
Status write_invitation(const Path& store, const Invitation& invitation);
/// It is gone durably.
Status remove_invitation(const Path& store);

}  // namespace s3oram
