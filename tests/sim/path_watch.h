// Watches the client's messages for Rule::access_records. Whatever happens, the retrieval of a
// write number asks for the same path each time, and an access that a crash cut short is finished
// when the volume is opened again.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "oramcore/protocol/messages.h"
#include "tests/sim/watch.h"

namespace s3oram::test {

class PathWatch final : public Watch {
 public:
  /// A root write may count once this many servers have answered it.
  explicit PathWatch(Party servers) : servers_(servers) {}

  void saw(Party from, Party to, const Bytes& message) override;
  void client_died() override;
  /// (The write numbers of what was under way do not come again.)
  void client_lost() override;
  std::string opened() override;

 private:
  struct Access {
    Leaf path = 0;
    unsigned height = 0;      // this many bits of it count
    std::set<Party> written;  // servers that have answered the root write
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
