// The subcommands that prepare a server's store. Each may run while a server does; the server
// reads `clients` again when it changes, and all files when it starts.
#pragma once

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "oramcore/base/error.h"

namespace s3oram {

/// Makes the store (0700) if it is not there, and the server's key; prints the public key alone.
/// With `rotate`, replaces the key, which must exist; a running server uses the previous key until
/// it ends. Errors: exists (there is a key, without `rotate`), usage (there is none to replace).
Status keygen(const std::filesystem::path& store, std::ostream& out, bool rotate = false);

/// Lets the client with this public key connect, and says when that takes effect. Errors: usage
/// (not a key, or that of a server).
Status authorize(const std::filesystem::path& store, const std::string& key, std::ostream& out);

/// No longer lets the client with this public key connect. Existing connections stay until the
/// server ends. Errors: usage (not a key, or not that of a client).
Status revoke(const std::filesystem::path& store, const std::string& key, std::ostream& out);

/// Writes down all servers of the volume, each "N=HOST:PORT,KEY". If this server has a key, it must
/// be among them: it finds its number by that key. Without `servers`, prints those written down.
/// With `update`, the others that were written down stay. Errors: usage (a number is missing, or a
/// number, address or key comes twice, or none of them has this server's own key).
Status peers(const std::filesystem::path& store, const std::vector<std::string>& servers,
             std::ostream& out, bool update = false);

}  // namespace s3oram
