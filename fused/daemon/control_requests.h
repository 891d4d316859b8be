// Answers the requests that come over the control socket of a mount (control_socket.h).
#pragma once

#include "fused/daemon/control_socket.h"
#include "fused/daemon/locker.h"
#include "fused/daemon/watched.h"

namespace s3oram {

/// Returns a handler for all requests but "end". The handler holds both references.
ControlHandler control_handler(const Watched& watched, Locker& locker);

}  // namespace s3oram
