// Reads the client's tables of vault.db and checks each row: for opening a volume, which goes on
// without bad rows, and for fsck, which explains and drops them. A row is bad for these reasons:
//   tree, sessions   anything: the volume cannot be opened
//   buckets          a wrong checksum, a bucket outside the tree
//   positions        a place outside the tree, or in a root slot that another access has written
//                    since; a number that no volume of this height has; a place in the stash
//                    without a row there; a place in a bucket that is not on its leaf's path, or
//                    whose row does not list it; the slot of a block that was written later
//   stash            a row whose block lies elsewhere, or nowhere
//   intents          a slot or leaf that the tree does not have, a gap
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
  std::int64_t format = 0;  // of the rows
  Findings findings;
  /// Why the volume cannot be opened, if it cannot: damaged_vault, unsupported, or failed (the disk
  /// could not read it). No repair mends that, and `state` is then empty.
  std::optional<Error> refused;
  /// Keys of the rows that are bad, ascending.
  std::vector<std::int64_t> bad_positions, bad_buckets, bad_stash, bad_access_records;
  /// Write numbers without a row, while a later one has one.
  std::vector<WriteNumber> missing_access_records;
};

/// Returns a bound of the block numbers in a tree of that height. They stay dense, so a volume
/// never has many more of them than its tree holds blocks. A number far beyond is damage, and would
/// need the memory of a volume of that size.
std::int64_t most_blocks(unsigned height, const std::optional<VolumeParams>& params);

/// Reads and checks the state. Without `params`, checks places only by the tree's height. Reads
/// rows once, and keeps nothing of a table that cannot be read to its end (`refused`).
StateCheck read_state(Database& database, const std::optional<VolumeParams>& params);

/// Checks more than opening needs: that sealed blocks have the right size, and that the numbers of
/// the tree fit together. Adds to `check`, and removes what is lost from its state.
void check_further(StateCheck& check, const VolumeParams& params);

/// Deletes the bad rows. To be called in a transaction, and not for a refused state.
Status repair_state(Database& database, const VolumeParams& params, const StateCheck& check);

}  // namespace s3oram
