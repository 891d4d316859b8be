// Reads ring's tables in vault.db and checks each row. A volume is opened without the bad rows;
// fsck explains and deletes them. A row is bad for these reasons:
//   ring_tree, sessions   anything: the volume cannot be opened
//   ring_buckets          a bucket that does not lie at the server, more touches than dummies
//   ring_blocks           a number that no volume of this height has; a place outside the tree, or
//                         in a bucket without a row; a slot, a turn or a slot of top.cache that a
//                         block written later has too
//   ring_accesses         a turn that could not have been reserved, a record that cannot be read
//   ring_logged           a turn that is not between those of ring_tree (it counts for nothing)
#pragma once

#include <optional>
#include <vector>

#include "oramcore/db/finding.h"
#include "oramcore/schemes/ring/client/ring_state.h"

namespace s3oram::ring {

struct RingCheck {
  /// The rows that can be used.
  RingState::Loaded state;
  Findings findings;
  /// The reason why the volume cannot be opened, if it cannot: damaged_vault, unsupported, or
  /// failed (the disk could not read the tables). No repair can fix that.
  std::optional<Error> refused;
  /// Keys of the bad rows.
  std::vector<std::int64_t> bad_blocks, bad_buckets, bad_records;
};

/// Reads and checks the tables. Keeps nothing of a table that cannot be read to its end
/// (`refused`).
RingCheck read_ring(Database& database, const VolumeParams& params);

/// Deletes the bad rows. Must be called in a transaction, and not if the state was refused.
Status repair_ring(Database& database, const RingCheck& check);

}  // namespace s3oram::ring
