// The other servers of the volume, which the client may exchange while this server runs: one was
// replaced, or has moved.
#pragma once

#include <string>

#include "oramcore/zmq/zmq_transport.h"
#include "serverd/config.h"

namespace s3oram {

/// On the transport's executor.
class PeerList {
 public:
  /// `options` and `transport` must outlive it.
  PeerList(const Options& options, Party self, ZmqTransport& transport)
      : options_(options), self_(self), transport_(transport) {}

  /// Writes a server's new address and key, "N=HOST:PORT,KEY", to the store's file `peers`, and
  /// uses them at once. Its earlier key is no longer admitted. Errors: usage (it is this server, or
  /// one that is not known, or the command line names it, or another one has its address or key).
  Status take(const std::string& text);

 private:
  Status keep(const PeerAddress& peer);

  const Options& options_;
  const Party self_;
  ZmqTransport& transport_;
};

}  // namespace s3oram
