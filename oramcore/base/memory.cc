#include "oramcore/base/memory.h"

#include <malloc.h>

namespace s3oram {

void keep_freed_memory() {
#ifdef M_MMAP_THRESHOLD
  constexpr int kLargest = 32 << 20;  // the allocator takes no more
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, 4 * kLargest);
#endif
}

void share_freed_memory() {
#ifdef M_ARENA_MAX
  mallopt(M_ARENA_MAX, 2);  // one would be waited for
#endif
}

}  // namespace s3oram
