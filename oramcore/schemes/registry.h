// The schemes that this client has.
#pragma once

#include "oramcore/client/scheme.h"
#include "oramcore/client/volume_kind.h"
#include "oramcore/protocol/sizing.h"

namespace s3oram {

/// How volumes with these numbers are made, opened, checked and rebuilt.
const VolumeKind& volume_kind(const VolumeParams& params);

/// Chooses the numbers of a new volume of the wished scheme. Errors (usage) name the wish that
/// cannot be fulfilled.
Result<Choice> choose_volume(const Wishes& wishes);

/// What differs between the schemes that share an engine (s3oram, mirror); `random` must outlive
/// it. Null for ring, whose engine is its own.
std::unique_ptr<ClientScheme> client_scheme(const VolumeParams& params, const Seed& sealing_key,
                                            Random& random);

}  // namespace s3oram
