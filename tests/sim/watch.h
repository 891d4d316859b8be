// Watches the client's messages during a run, for what no server may ever see.
#pragma once

#include <string>

#include "oramcore/net/transport.h"

namespace s3oram::test {

class Watch {
 public:
  virtual ~Watch() = default;
  virtual void saw(Party from, Party to, const Bytes& message) = 0;
  virtual void client_died() = 0;
  /// The client died with its disk, so what it had under way is over.
  virtual void client_lost() = 0;
  /// The client has opened the volume. Returns what is wrong, or an empty text.
  virtual std::string opened() = 0;
};

}  // namespace s3oram::test
