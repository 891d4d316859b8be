// What a server sees of the paths that a client asks for, and whether a crash made it see more than
// that there was one (3-durability.md, rule 4): accesses that had not ended are asked for again,
// all of them, in their order and on the same paths, before anything else. Buckets must not
// overflow: what goes to the stash is asked for without a root slot.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/sim/cluster.h"

namespace s3oram::test {

class PathWatch {
 public:
  explicit PathWatch(Party servers) : servers_(servers) {}

  /// To be called for every message sent.
  void saw(Party from, Party to, const Bytes& message);
  /// The client has died.
  void client_died();
  /// The client has opened the volume again. What it did wrong; empty if nothing.
  std::string opened();

 private:
  struct Access {
    std::uint64_t path = 0;
    std::set<Party> written;  // servers that have acknowledged its root write
  };
  void begin_view(std::uint64_t view);

  const Party servers_;
  std::uint64_t view_ = 0;
  bool opening_ = false, healed_ = false;
  std::vector<Access> accesses_;         // of this view, by root slot
  std::vector<std::uint64_t> repeated_;  // paths asked for since the client began to open
  std::set<Bytes> seen_;                 // questions: one that comes again is no new access
  std::map<std::uint64_t, std::size_t> root_writes_;  // by number, their slot
};

}  // namespace s3oram::test
