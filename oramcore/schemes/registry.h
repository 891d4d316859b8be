// The schemes that this client supports.
#pragma once

#include "oramcore/client/client_scheme.h"
#include "oramcore/client/volume_kind.h"
#include "oramcore/protocol/sizing.h"

namespace s3oram {

/// Returns how volumes with these numbers are made, opened, checked and rebuilt.
const VolumeKind& volume_kind(const VolumeParams& params);

/// Chooses the numbers of a new volume with the requested scheme. Errors: usage, naming the wish
/// that cannot be fulfilled.
Result<Choice> choose_volume(const Wishes& wishes);

/// Makes the part that differs between the schemes that share an engine (s3oram, mirror); `random`
/// must outlive it. Null for ring, which has its own engine.
std::unique_ptr<ClientScheme> client_scheme(const VolumeParams& params, const Seed& sealing_key,
                                            Random& random);

}  // namespace s3oram
