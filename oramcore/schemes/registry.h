// The schemes that this client has.
#pragma once

#include "oramcore/client/scheme.h"

namespace s3oram {

/// The scheme of a volume with these numbers; `random` must outlive it.
std::unique_ptr<ClientScheme> client_scheme(const VolumeParams& params, const Seed& sealing_key,
                                            Random& random);

}  // namespace s3oram
