// QR codes, drawn by the program qrencode.
#pragma once

#include <string>

#include "oramcore/base/error.h"

namespace s3oram {

enum class QrKind {
  terminal,  // lines of block characters
  svg        // an image for a page
};

/// Checks that qr_code() will work, before anything else is done for `option`. Errors: unsupported
/// (says what to install).
Status check_qr(const std::string& option);

/// Returns the code of `text`. The text reaches the program in a way that other users cannot watch.
/// Errors: failed (also if the text is too long for a code).
Result<std::string> qr_code(const std::string& text, QrKind kind);

}  // namespace s3oram
