// What an invited server does before it serves: waits for its client, who tells it all servers.
#pragma once

#include "oramcore/base/error.h"
#include "oramcore/service/manager.h"
#include "serverd/config.h"

namespace s3oram {

enum class Joined { yes, told_to_stop };

/// Returns at once if the store holds no invitation. Otherwise listens for the client on the
/// invitation's link until it has told all servers, and keeps those and the client's key in the
/// store; the invitation is gone then.
Result<Joined> await_client(const Options& options, ServiceManager& manager);

}  // namespace s3oram
