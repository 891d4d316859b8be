// Runs one share server until it is told to stop.
#pragma once

#include "oramcore/base/error.h"
#include "serverd/config.h"

namespace s3oram {

/// Returns after SIGTERM or SIGINT, with everything durable. SIGHUP makes it reread `clients`.
Status serve(const Options& options);

}  // namespace s3oram
