// Watches the client's messages for Rule::access_records: whatever happens, a turn's retrieval asks
// for the same path each time, and an access that a crash cut short is finished when the volume is
// opened again.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "oramcore/protocol/messages.h"

namespace s3oram::test {

class PathWatch {
 public:
  /// A root write may count once so many servers have answered it.
  explicit PathWatch(Party servers) : servers_(servers) {}

  void saw(Party from, Party to, const Bytes& message);
  void client_died();
  /// With its disk: what it had under way is over. (Its turns do not come again.)
  void client_lost();
  /// The client has opened the volume. What is wrong, or nothing.
  std::string opened();

 private:
  struct Access {
    Leaf path = 0;
    unsigned height = 0;      // so many bits of it count
    std::set<Party> written;  // who has answered the root write
  };
  void retrieved(const RetrieveRequest& request);

  const Party servers_;
  std::map<WriteNumber, Access> accesses_;
  std::map<std::pair<Party, std::uint64_t>, WriteNumber> root_writes_;  // by server and message
  std::set<WriteNumber> unfinished_;                                    // when the client died
  bool opening_ = true;
  std::string wrong_;
};

}  // namespace s3oram::test
