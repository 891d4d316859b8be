// The allocator's habits, for programs that move large blocks all the time.
#pragma once

namespace s3oram {

/// Keeps the memory of freed blocks for the next ones: by default each large block is mapped,
/// zeroed page by page by the kernel and unmapped again. Called first in main().
void keep_freed_memory();

}  // namespace s3oram
