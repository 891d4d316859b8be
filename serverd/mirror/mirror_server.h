// The server's side of mirror: all servers' slots hold the same bytes, and a query chooses which of
// them a server adds up.
#pragma once

#include "serverd/oram/server_scheme.h"

namespace s3oram {

std::unique_ptr<ServerScheme> make_mirror_server(const VolumeDescription& volume);

}  // namespace s3oram
