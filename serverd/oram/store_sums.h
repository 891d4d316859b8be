// Checksums over the tables of control.db. A server makes shares of what these tables say, so a
// number that has changed by itself, or a page that is of another time, would spoil what the other
// servers hold too. The sums are stored with the rows, in the same transaction, and compared before
// anything is made of the rows.
//
// A table's sum is the exclusive or of its rows' checksums: a row is added and taken away by the
// same operation, and the order of the rows does not matter.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "oramcore/db/sqlite.h"
#include "oramcore/protocol/messages.h"
#include "serverd/store/bucket_store.h"

namespace s3oram {

/// New versions of some buckets.
using BucketVersions = std::vector<std::pair<BucketIndex, BucketVersionRef>>;

/// Of each table; that of an empty one is 0. `prepared` covers both tables of what is prepared.
struct ControlSums {
  std::uint64_t volume = 0, buckets = 0, prepared = 0, attempts = 0;
  friend bool operator==(const ControlSums&, const ControlSums&) = default;
};

/// The row of the volume.
std::uint64_t sum_of_volume(std::int64_t format, const VolumeDescription& volume,
                            const Session& session, std::uint64_t tree_version, unsigned height);
/// A row of `buckets`. A bucket without a frame has none, and adds nothing.
std::uint64_t sum_of_bucket(BucketIndex bucket, const BucketVersionRef& ref);
/// The row of `prepared`, and those of `prepared_buckets`.
std::uint64_t sum_of_prepared(const EvictionId& id, unsigned next_height,
                              const BucketVersions& versions);
/// A row of `attempts`.
std::uint64_t sum_of_attempt(const EvictionId& id);

/// Makes the table of the sums if it is missing, and the triggers that empty it: a program that
/// knows no sums changes the rows without them, and must not leave old ones behind. In a
/// transaction, once the other tables are there.
Status make_sums_table(Database& database);

/// Stores the sums. In the transaction that changes the rows, after them.
Status put_sums(Database& database, const ControlSums& sums);

/// Returns the stored sums; std::nullopt if no program that knows them has changed the rows last.
Result<std::optional<ControlSums>> read_sums(Database& database);

/// Errors: damaged_vault, with the name of the first table that is not as it was written.
Status compare_sums(const ControlSums& stored, const ControlSums& found);

}  // namespace s3oram
