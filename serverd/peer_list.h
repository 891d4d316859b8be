// The other servers of the volume. The client may exchange them while this server runs, if one was
// replaced or has moved.
#pragma once

#include <string>

#include "oramcore/zmq/zmq_transport.h"
#include "serverd/config.h"

namespace s3oram {

/// Used on the transport's executor.
class PeerList {
 public:
  /// `options` and `transport` must outlive this object.
  PeerList(const Options& options, Party self, ZmqTransport& transport)
      : options_(options), self_(self), transport_(transport) {}

  /// Writes a server's new address and key, "N=HOST:PORT,KEY", to the store's file `peers`, and
  /// uses them immediately. The server's earlier key is no longer admitted. Errors: usage (it is
  /// this server, or an unknown one, or the command line names it, or another server has that
  /// address or key).
  Status take(const std::string& text);

 private:
  Status keep(const PeerAddress& peer);

  const Options& options_;
  const Party self_;
  ZmqTransport& transport_;
};

}  // namespace s3oram
