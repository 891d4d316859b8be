// What a program prints for others to use.
#pragma once

#include "oramcore/base/error.h"

namespace s3oram {

/// To be asked at a program's end: whether all that it has printed is where it goes (a file on a
/// full disk takes less). Errors: failed.
Status output_written();

}  // namespace s3oram
