// The server's side of S3ORAM: slots hold Shamir shares, and queries are shares of a unit vector.
#pragma once

#include "serverd/oram/server_scheme.h"

namespace s3oram {

std::unique_ptr<ServerScheme> make_s3oram_server(const VolumeDescription& volume);

}  // namespace s3oram
