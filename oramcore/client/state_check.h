// Reads the client's tables of vault.db row by row and judges each row: for opening a volume,
// which goes on without the bad ones, and for a check, which explains and drops them. What is bad:
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
  /// Why the volume cannot be opened, if it cannot: damaged_vault, unsupported, or failed
  /// (the disk did not give it). No repair mends that, and `state` says nothing then.
  std::optional<Error> refused;
  /// Keys of the rows that are bad, ascending.
  std::vector<std::int64_t> bad_positions, bad_buckets, bad_stash, bad_access_records;
  /// Turns that have no row, and a later one has.
  std::vector<WriteNumber> missing_access_records;
};

/// Numbers of blocks are below this in a tree of that height: they stay dense, so a volume has
/// never had many more of them than its tree holds blocks. What is far beyond is damage, and would
/// need the memory of a volume of that size.
std::int64_t most_blocks(unsigned height, const std::optional<VolumeParams>& params);

/// Without `params`, places are judged by the tree's height alone. Rows are read once, and nothing
/// is kept of a table that cannot be read to its end (`refused`).
StateCheck read_state(Database& database, const std::optional<VolumeParams>& params);

/// Beyond what opening needs: sealed blocks of the right size, numbers of the tree that fit each
/// other. Adds to `check`, and takes what is lost out of its state.
void check_further(StateCheck& check, const VolumeParams& params);

/// Deletes the bad rows. In a transaction of the caller; not for a refused state.
Status repair_state(Database& database, const VolumeParams& params, const StateCheck& check);

}  // namespace s3oram
