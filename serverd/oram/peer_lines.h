// Says which other servers a server hears (LinesRequest).
#pragma once

#include "serverd/oram/server_state.h"

namespace s3oram {

/// Asks all other servers of the volume for a sign of life, and answers with what came. Another
/// server, which wants only such a sign, is answered immediately.
Task<Result<Bytes>> peer_lines(ServerState& state, Party from);

}  // namespace s3oram
