// A server's part in measuring lines (ProbeRequest, MeasureRequest). It never sends or holds more
// than those messages allow. One executor; not thread-safe.
#pragma once

#include "serverd/oram/server_state.h"

namespace s3oram {

class LineMeasuring {
 public:
  explicit LineMeasuring(ServerState& state) : state_(state) {}

  /// Takes bytes, and returns as many to the client as it asks for. Errors: bad_request (malformed,
  /// or a server asks for bytes).
  Result<Bytes> probe(Party from, const Payload& payload) const;
  /// Fills this server's lines to the others. Errors: vault_in_use (it is already doing so).
  Task<Result<Bytes>> measure(Payload payload);

 private:
  Task<bool> carry(Party to, std::size_t bytes);

  ServerState& state_;
  bool measuring_ = false;
};

}  // namespace s3oram
