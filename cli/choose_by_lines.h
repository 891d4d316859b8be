// Chooses a volume's numbers once its servers can be reached, by what the lines to them carry.
#pragma once

#include "cli/init.h"
#include "oramcore/volume/volume.h"

namespace s3oram {

/// Measures the lines that the options do not give, chooses the numbers again, and notes them in
/// `vault`, whose volume is not made yet. Changes nothing in a local vault, and where a server has
/// the volume already. Errors: as of measure_lines() and choose_numbers().
Status choose_by_lines(const InitOptions& options, Vault& vault, const VaultKeys& keys,
                       const VolumeOptions& how, Choice& choice);

}  // namespace s3oram
