// What a server answers when it is asked for room, whatever its scheme.
#pragma once

#include "serverd/oram/server_state.h"

namespace s3oram {

/// Returns a RoomAnswer: up to which height the disk has room for the tree. Errors: wrong_volume
/// (there is no volume).
Result<Bytes> room_report(ServerState& state);

}  // namespace s3oram
