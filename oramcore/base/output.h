// Checks that the output of a program was written.
#pragma once

#include "oramcore/base/error.h"

namespace s3oram {

/// Flushes standard output and checks that all of it was written, which a full disk prevents. Call
/// it at a program's end. Errors: failed.
Status output_written();

}  // namespace s3oram
