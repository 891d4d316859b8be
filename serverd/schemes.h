// Makes the scheme of a volume, out of those that this server knows.
#pragma once

#include "serverd/oram/server_scheme.h"

namespace s3oram {

std::unique_ptr<ServerScheme> server_scheme(const VolumeDescription& volume);

}  // namespace s3oram
