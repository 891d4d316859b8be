// Reads the client's tables in vault.db and checks each row. A volume is opened without the bad
// rows; fsck explains and deletes them. A row is bad for these reasons:
//   tree, sessions   any defect, and then the volume cannot be opened
//   buckets          a wrong checksum, a bucket outside the tree
//   positions        a place outside the tree, or in a root slot that another access has written
//                    since; a number that no volume of this height has; a place in the stash
//                    without a row there; a place in a bucket that is not on its leaf's path, or
//                    whose row does not list it; the slot of a block that was written later
//   stash            a row whose block lies elsewhere, or nowhere
//   intents          a slot or leaf that the tree does not have, a gap
//   marks            a wrong checksum, a bucket outside the tree (only fsck reads these)
#pragma once

#include <optional>
#include <vector>

#include "oramcore/client/client_state.h"
#include "oramcore/db/finding.h"
#include "oramcore/protocol/params.h"

namespace s3oram {

struct StateCheck {
  /// The rows that can be used.
  ClientState::Loaded state;
  std::int64_t format = 0;  // format of the rows
  Findings findings;
  /// The reason why the volume cannot be opened, if it cannot: damaged_vault, unsupported, or
  /// failed (the disk could not read the tables). No repair can fix that, and `state` is then
  /// empty.
  std::optional<Error> refused;
  /// Keys of the bad rows, ascending.
  std::vector<std::int64_t> bad_positions, bad_buckets, bad_stash, bad_access_records, bad_marks;
  /// Write numbers that have no row, although a later one has one.
  std::vector<WriteNumber> missing_access_records;
};

/// Returns an upper bound of the block numbers in a tree of that height. Block numbers stay dense,
/// so a volume never has many more of them than its tree holds blocks. A number far above the bound
/// is damage, and would need the memory of a volume of that size.
std::int64_t most_blocks(unsigned height, const std::optional<VolumeParams>& params);

/// Reads and checks the state. Without `params`, checks places only against the tree's height.
/// Reads each row once, and keeps nothing of a table that cannot be read to its end (`refused`).
StateCheck read_state(Database& database, const std::optional<VolumeParams>& params);

/// Checks more than opening needs: that sealed blocks have the right size, and that the numbers of
/// the tree are consistent. Adds what it finds to `check`, and removes what is lost from its state.
void check_further(StateCheck& check, const VolumeParams& params);

/// Checks the rows of table `marks`, which opening a volume does not read.
void check_marks(Database& database, StateCheck& check);

/// Deletes the bad rows. Must be called in a transaction, and not if the state was refused.
Status repair_state(Database& database, const VolumeParams& params, const StateCheck& check);

}  // namespace s3oram
