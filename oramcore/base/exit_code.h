// The exit code of a program that ends with an error.
#pragma once

#include "oramcore/base/error.h"

namespace s3oram {

/// Returns the code that man/s3oramfs.1 lists. Codes of answers between parties are not among them.
inline int exit_code(const Error& error) {
  if (error.code == Errc::fenced) return static_cast<int>(Errc::stale_vault);
  const bool is_listed = error.code < Errc::need_open;
  return static_cast<int>(is_listed ? error.code : Errc::failed);
}

}  // namespace s3oram
