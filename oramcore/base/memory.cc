// The settings of the C library's allocator.
#include "oramcore/base/memory.h"

#include <malloc.h>

#include <algorithm>

namespace s3oram {

void keep_freed_memory(std::uint64_t usable) {
#ifdef M_MMAP_THRESHOLD
  constexpr int kLargest = 32 << 20;  // the allocator's own maximum
  constexpr std::uint64_t kPart = 64, kSmall = std::uint64_t{2} << 30;
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD,
          static_cast<int>(std::min<std::uint64_t>(4 * kLargest, usable / kPart)));
  if (usable < kSmall) share_freed_memory();
#endif
}

void share_freed_memory() {
#ifdef M_ARENA_MAX
  mallopt(M_ARENA_MAX, 2);  // with a single arena, threads would wait for each other
#endif
}

void give_back_freed_memory() {
#ifdef M_TRIM_THRESHOLD
  malloc_trim(0);
#endif
}

}  // namespace s3oram
