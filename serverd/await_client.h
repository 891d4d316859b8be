// Makes an invited server wait for its client, which tells it about all servers, before it serves.
#pragma once

#include "oramcore/base/error.h"
#include "oramcore/service/manager.h"
#include "serverd/config.h"

namespace s3oram {

enum class Joined { yes, told_to_stop };

/// Returns immediately if the store holds no invitation. Otherwise listens for the client on the
/// invitation's link until the client has named all servers, then stores these and the client's
/// key, and removes the invitation.
Result<Joined> await_client(const Options& options, ServiceManager& manager);

}  // namespace s3oram
