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
/// A key that is there is replaced only if `rotate`, and only then there must be one; a server that
/// runs uses the former one until it ends. Errors: exists.
Status keygen(const std::filesystem::path& store, std::ostream& out, bool rotate = false);

/// Lets the client with this public key connect, and says when. Errors: usage (not a key).
Status authorize(const std::filesystem::path& store, const std::string& key, std::ostream& out);

/// No more. Connections that are there stay until the server ends. Errors: usage (not a key, or not
/// that of a client).
Status revoke(const std::filesystem::path& store, const std::string& key, std::ostream& out);

/// Writes down all servers of the volume, each "N=HOST:PORT,KEY"; this server may be among them,
/// and finds its number by its key. Without `servers`, prints those written down. With `update`,
/// the others that were written down stay. Errors: usage (fewer than three, or a number is
/// missing, or none of them has this server's own key).
Status peers(const std::filesystem::path& store, const std::vector<std::string>& servers,
             std::ostream& out, bool update = false);

}  // namespace s3oram
