// Chooses a volume's numbers by the speed of the lines to its servers, once they can be reached.
#pragma once

#include "cli/init.h"
#include "oramcore/volume/volume.h"

namespace s3oram {

/// Measures the lines that the options do not give, chooses the numbers again, and stores them in
/// `vault`, whose volume is not made yet. The vault stays as it is if it is local, or if a server
/// already has the volume. Errors: those of measure_lines() and choose_numbers().
Status choose_by_lines(const InitOptions& options, Vault& vault, const VaultKeys& keys,
                       const VolumeOptions& how, Choice& choice);

}  // namespace s3oram
