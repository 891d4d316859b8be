// Lies drawn at random. One server lies in whatever it sends (lie.h), for a while or for ever. Two
// volumes live through the same lies, and their clients ask for the same paths. Their servers must
// see the same of their clients, although one client reads and writes other blocks than the other,
// or none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "oramcore/base/party.h"
#include "oramcore/protocol/params.h"

namespace s3oram::test {

struct LiesReport {
  std::string failure;     // empty if all promises were kept
  std::uint64_t lies = 0;  // messages that were changed, withheld or replaced, in both volumes
  std::uint64_t rounds = 0, accesses = 0, failed = 0;  // accesses that ended with an error
  std::uint64_t named = 0;                             // rounds after which the liar was named
  std::uint64_t stopped = 0;                           // rounds after which evictions had stopped
  std::uint64_t stalls = 0;  // accesses that waited until a lie that persisted had ended
};

/// Runs one seed for this many rounds, in volumes with this evictor: shuffle (s3oram, three
/// servers) or selection (mirror). Checks that no read returns a wrong byte, none hangs, no lie
/// ends a volume or costs it a block, no honest server is named as a liar, and that the clients'
/// requests after a lie do not depend on what they read or write. Once `go_on` returns false, the
/// next round is the last.
LiesReport live_with_lies(
    std::uint64_t seed, unsigned rounds, Evictor evictor, Party servers = 3,
    std::function<bool()> go_on = [] { return true; });

}  // namespace s3oram::test
