// The checks of a ZmqConfig that need no open socket.
#pragma once

#include "oramcore/base/error.h"
#include "oramcore/zmq/zap.h"
#include "oramcore/zmq/zmq_transport.h"

namespace s3oram {

/// Checks endpoints, numbers and keys. Errors: usage.
Status check(const ZmqConfig& config);

/// Returns the keys that a listener admits, with their parties. Errors: usage (two parties have the
/// same key).
Result<ZapHandler::Admitted> admitted_keys(const ZmqConfig& config,
                                           const std::vector<PublicKey>& clients);

/// Checks that an ipc endpoint is free, because ZeroMQ would take it away from another process.
/// Errors: exists (a process listens there, or the path is not a socket).
Status check_ipc_free(const std::string& endpoint);

}  // namespace s3oram
