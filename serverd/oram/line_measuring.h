// A server's part in measuring lines (ProbeRequest, MeasureRequest). Whatever it is asked, it sends
// and holds no more than those messages allow. One executor; not thread-safe.
#pragma once

#include "serverd/oram/server_state.h"

namespace s3oram {

class LineMeasuring {
 public:
  explicit LineMeasuring(ServerState& state) : state_(state) {}

  /// Takes bytes, and gives the client as many back as it asks for.
  Result<Bytes> probe(Party from, const Payload& payload) const;
  /// Fills this server's lines to the others. Errors: vault_in_use (it does so already).
  Task<Result<Bytes>> measure(Payload payload);

 private:
  Task<bool> carry(Party to, std::size_t bytes);

  ServerState& state_;
  bool measuring_ = false;
};

}  // namespace s3oram
