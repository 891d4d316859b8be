// A mount that exists in the kernel while no file system serves it.
#pragma once

#include <string>
#include <vector>

#include "fused/kernel/open_writers.h"
#include "oramcore/base/descriptor.h"

namespace s3oram {

struct HeldMount {
  Descriptor device;  // the open /dev/fuse
  std::string init;   // the kernel's first request, which it sends only once
  std::vector<OpenWriter> writers;
};

}  // namespace s3oram
