// Blocks as they lie in slots of the log, of top.cache and of buckets: sealed with their labels.
#pragma once

#include "oramcore/client/client_scheme.h"
#include "oramcore/oram/block_device.h"
#include "oramcore/oram/opaque_sealer.h"

namespace s3oram::ring {

/// Returns a block as it lies in a slot.
Bytes sealed_block(OpaqueSealer& sealer, const Label& label, ByteSpan content);

/// Opens a slot. Any thread. Errors: corrupt.
Result<OpenedBlock> opened_block(const OpaqueSealer& sealer, ByteSpan sealed);
/// Opens a slot that should hold this version of a block. Any thread. Errors: corrupt (also if it
/// holds another block or version).
Result<OpenedBlock> opened_block(const OpaqueSealer& sealer, ByteSpan sealed, BlockId block,
                                 std::uint64_t version);

}  // namespace s3oram::ring
