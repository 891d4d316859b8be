// Flushes standard output, and reports if it could not be written.
#include "oramcore/base/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace s3oram {

Status output_written() {
  errno = 0;
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return fail(Errc::failed, "the output could not be written{}{}", errno != 0 ? ": " : "",
              errno != 0 ? std::strerror(errno) : "");
}

}  // namespace s3oram
