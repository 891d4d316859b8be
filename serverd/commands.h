// The subcommands that prepare a server's store. Each may run while a server runs on the store; the
// server rereads `clients` when it changes, and reads all files when it starts.
#pragma once

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "oramcore/base/error.h"

namespace s3oram {

/// Creates the store (0700) if it is missing, and the server's key; prints only the public key.
/// With `rotate`, replaces the key, which must exist; a running server uses the previous key until
/// it ends. Errors: exists (there is a key, and no `rotate`), usage (there is no key to replace).
Status keygen(const std::filesystem::path& store, std::ostream& out, bool rotate = false);

/// Lets the client with this public key connect, and says when that takes effect. Errors: usage
/// (not a key, or a server's key).
Status authorize(const std::filesystem::path& store, const std::string& key, std::ostream& out);

/// Stops letting the client with this public key connect. Existing connections stay until the
/// server ends. Errors: usage (not a key, or not a client's key).
Status revoke(const std::filesystem::path& store, const std::string& key, std::ostream& out);

/// Stores the list of the volume's servers, each "N=HOST:PORT,KEY". If this server has a key, the
/// list must contain it, because the server finds its number by that key. Without `servers`, prints
/// the stored list. With `update`, servers that are stored and not given stay in the list. Errors:
/// usage (a number is missing, or a number, address or key occurs twice, or no server has this
/// server's own key).
Status peers(const std::filesystem::path& store, const std::vector<std::string>& servers,
             std::ostream& out, bool update = false);

}  // namespace s3oram
