// Measures the lines of a vault whose volume is about to be made: from this machine to the servers
// and back, and between the servers.
#pragma once

#include "oramcore/protocol/line_prediction.h"
#include "oramcore/vault/vault.h"
#include "oramcore/volume/volume.h"

namespace s3oram {

/// Which lines are to be measured.
struct WantedLines {
  bool line = true;     // of this machine
  bool between = true;  // of the servers
};

/// What is known of the lines of servers that have let the client in.
struct FoundLines {
  /// A server has the volume already, with the numbers of the vault: nothing was measured.
  bool is_made = false;
  MeasuredLines lines;
};

/// Measures for about two seconds, and four at most, once all servers have answered. Servers
/// cannot make it fail: what a line carries is then not known, and `lines.why` says why. A server's
/// word counts for the lines between servers. Errors, as of Volume::create(): unreachable,
/// refused_key, ...
Result<FoundLines> measure_lines(const Vault& vault, const VaultKeys& keys,
                                 const VolumeOptions& options, WantedLines wanted);

/// Measures over a transport that is connected. On `executor`.
Task<MeasuredLines> measure_lines(Executor executor, Clock& clock, Random& random,
                                  Transport& transport, unsigned servers, WantedLines wanted);

}  // namespace s3oram
