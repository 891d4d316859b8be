// s3oramfs-serverd join: sets up a server from an invitation. (Before such a server serves, it
// waits for its client: await_client.h.)
#pragma once

#include <filesystem>
#include <ostream>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

struct JoinOptions {
  std::string invitation;  // "-": read it from standard input
  std::string store;       // if empty, derived from `name`
  std::string listen;      // if empty, every address, at the invitation's port
  std::string name = "vault";
  bool start = false;  // start the server even without a service manager
};

/// Creates the store, the server's key, the configuration and the unit, starts the server, and says
/// what to compare by telephone. Keeps existing files, so it can be run again. A unit of an
/// ordinary user is started only if it will stay after the user has logged out. Errors: usage (not
/// an invitation), exists (the store belongs to another client), failed.
Status join(const JoinOptions& options, std::ostream& out);

}  // namespace s3oram
