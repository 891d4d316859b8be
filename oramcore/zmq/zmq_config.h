// What can be known to be wrong with a ZmqConfig before any socket is opened.
#pragma once

#include "oramcore/base/error.h"
#include "oramcore/zmq/zap.h"
#include "oramcore/zmq/zmq_transport.h"

namespace s3oram {

/// Endpoints, numbers and keys. Errors: usage.
Status check(const ZmqConfig& config);

/// Which keys are whose, for a listener. Errors: usage (two parties with one key).
Result<ZapHandler::Admitted> admitted_keys(const ZmqConfig& config,
                                           const std::vector<PublicKey>& clients);

/// Whether an ipc endpoint is free to listen on (ZeroMQ would take it from another process).
/// Errors: exists (somebody listens there, or the path is something else than a socket).
Status check_ipc_free(const std::string& endpoint);

}  // namespace s3oram
