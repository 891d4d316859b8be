// The allocator's habits, for programs that move large blocks all the time.
#pragma once

#include <cstdint>

namespace s3oram {

/// Keeps the memory of freed blocks for the next ones, as far as `usable` bytes of memory allow
/// that: by default each large block is mapped, zeroed page by page by the kernel and unmapped
/// again. Called first in main().
void keep_freed_memory(std::uint64_t usable);

/// What one thread has freed serves all the others: by default each keeps large blocks for itself,
/// and a program with many threads holds many times what it uses.
void share_freed_memory();

/// Gives the memory of freed blocks back to the system, where it is short.
void give_back_freed_memory();

}  // namespace s3oram
