// s3oramfs-serverd join: makes a server of an invitation. And what a server that was invited does
// before it serves: it waits for its client, who tells it the other servers.
#pragma once

#include <filesystem>
#include <ostream>
#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

struct JoinOptions {
  std::string invitation;  // "-": it is on standard input
  std::string store;       // empty: by the name
  std::string listen;      // empty: at every address, the invitation's port
  std::string name = "vault";
  bool start = false;  // also where no service manager does it
};

/// Makes the store, the server's key, the configuration and the unit, starts the server, and says
/// what to compare by telephone. Existing files are kept, so it can be run again. Errors: usage
/// (not an invitation, or the store has another one's client), exists, failed.
Status join(const JoinOptions& options, std::ostream& out);

}  // namespace s3oram
