// Mirror on a server: every server's slots are the same bytes, and a query chooses which of them to
// add up.
#pragma once

#include "serverd/oram/scheme.h"

namespace s3oram {

std::unique_ptr<ServerScheme> make_mirror_server(const VolumeDescription& volume);

}  // namespace s3oram
