// Measures the lines of a vault whose volume is about to be made: those from this machine to the
// servers and back, and those between the servers.
#pragma once

#include "oramcore/protocol/line_prediction.h"
#include "oramcore/vault/vault.h"
#include "oramcore/volume/volume.h"

namespace s3oram {

/// Selects the lines to measure.
struct WantedLines {
  bool line = true;     // this machine's line
  bool between = true;  // the lines between servers
};

/// The measured lines to servers that have admitted the client.
struct FoundLines {
  /// True if a server already has the volume, with the vault's numbers; then nothing was measured.
  bool is_made = false;
  MeasuredLines lines;
};

/// Measures for about two seconds, and at most four, once all servers have answered. Servers cannot
/// make measuring fail: the speed of a line is then unknown, and `lines.why` says why. The speed
/// between servers is what the servers report. Errors: those of Volume::create() (unreachable,
/// refused_key, ...).
Result<FoundLines> measure_lines(const Vault& vault, const VaultKeys& keys,
                                 const VolumeOptions& options, WantedLines wanted);

/// Measures over a connected transport. Runs on `executor`.
Task<MeasuredLines> measure_lines(Executor executor, Clock& clock, Random& random,
                                  Transport& transport, unsigned servers, WantedLines wanted);

}  // namespace s3oram
