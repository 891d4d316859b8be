// Checks that a program's output was written.
#pragma once

#include "oramcore/base/error.h"

namespace s3oram {

/// Flushes standard output and checks that all of it was written, which may fail on a full disk.
/// Call it at the end of a program. Errors: failed.
Status output_written();

}  // namespace s3oram
