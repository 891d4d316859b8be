// Tunes the allocator for programs that constantly move large blocks.
#pragma once

#include <cstdint>

namespace s3oram {

/// Keeps the memory of freed blocks for later ones, as far as `usable` bytes of memory allow it. By
/// default each large block is mapped, zeroed page by page by the kernel, and unmapped again. Call
/// it at the start of main().
void keep_freed_memory(std::uint64_t usable);

/// Shares freed memory between threads. By default each thread keeps large blocks for itself, and a
/// program with many threads holds several times the memory that it uses.
void share_freed_memory();

/// Returns the memory of freed blocks to the system. Call it when memory is short.
void give_back_freed_memory();

}  // namespace s3oram
