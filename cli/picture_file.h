// A picture that a command writes; the file's suffix gives the format.
#pragma once

#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// Checks that write_picture() will be able to write `file`, the value of `option`. Call it before
/// measuring what the picture shows, because that takes long. With `page`, the file may also be a
/// page (.html). Errors: usage (another suffix), unsupported (a PNG needs a program that is not
/// installed), failed (the file cannot be written).
Status check_picture(const std::string& file, const std::string& option = "--plot",
                     bool page = false);

/// Writes the SVG image `svg`, or a page, to `file`: unchanged, or drawn as a PNG. Errors: failed.
Status write_picture(const std::string& file, const std::string& svg);

}  // namespace s3oram
