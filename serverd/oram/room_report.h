// The answers of a server of any scheme to a client that asks about its disk.
#pragma once

#include "serverd/oram/server_state.h"

namespace s3oram {

/// Returns a RoomAnswer: the greatest height of the tree for which the disk has room. Errors:
/// wrong_volume (there is no volume).
Result<Bytes> room_report(ServerState& state);
/// Returns a DiskAnswer. Errors: wrong_volume (there is no volume).
Result<Bytes> disk_report(ServerState& state);

}  // namespace s3oram
