// The schemes that this server has.
#pragma once

#include "serverd/oram/scheme.h"

namespace s3oram {

std::unique_ptr<ServerScheme> server_scheme(const VolumeDescription& volume);

}  // namespace s3oram
