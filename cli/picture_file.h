// A picture that a command writes: its name's suffix says in which format.
#pragma once

#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

/// Whether write_picture() will be able to write `file`, the value of `option`, before what it
/// shows is measured, which takes long. With `page`, it may be a page (.html) too. Errors: usage
/// (another suffix than these and .svg and .png), unsupported (a PNG needs a program that is not
/// installed), failed (it cannot be written).
Status check_picture(const std::string& file, const std::string& option = "--plot",
                     bool page = false);

/// Writes the SVG image `svg`, or a page, to `file`: as it is, or drawn as a PNG. Errors: failed.
Status write_picture(const std::string& file, const std::string& svg);

}  // namespace s3oram
