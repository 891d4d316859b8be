// Checksums over the tables of control.db. A server computes shares from what these tables say, so
// a number that has changed by itself, or an outdated page, would also spoil what the other servers
// hold. The sums are stored with the rows, in the same transaction, and compared before the rows
// are used.
//
// A table's sum is the exclusive or of its rows' checksums: one operation both adds and removes a
// row, and the order of the rows does not matter.
#pragma once

#include <cstdint>
#include <optional>

#include "oramcore/db/sqlite.h"
#include "oramcore/protocol/messages.h"
#include "serverd/oram/bucket_table.h"

namespace s3oram {

/// The sum of each table; 0 for an empty table. `prepared` covers `prepared` and
/// `prepared_buckets`.
struct ControlSums {
  std::uint64_t volume = 0, buckets = 0, prepared = 0, attempts = 0;
  friend bool operator==(const ControlSums&, const ControlSums&) = default;
};

/// Returns the checksum of the volume's row.
std::uint64_t sum_of_volume(std::int64_t format, const VolumeDescription& volume,
                            const Session& session, std::uint64_t tree_version, unsigned height);
/// Returns the checksum of a row of `buckets`. An empty bucket has no row, so its checksum is 0.
std::uint64_t sum_of_bucket(BucketIndex bucket, const BucketVersionRef& ref);
/// Returns the sum of the row of `prepared` and those of `prepared_buckets`.
std::uint64_t sum_of_prepared(const EvictionId& id, unsigned next_height,
                              const BucketVersions& versions);
/// Returns the checksum of a row of `attempts`.
std::uint64_t sum_of_attempt(const EvictionId& id);

/// Creates the table of the sums if it is missing, and triggers that empty it: an older program
/// changes rows without updating the sums, and must not leave old sums behind. Call it in a
/// transaction, once the other tables exist.
Status make_sums_table(Database& database);

/// Stores the sums. Call it in the transaction that changes the rows, after the changes.
Status put_sums(Database& database, const ControlSums& sums);

/// Returns the stored sums; std::nullopt if an older program, without sums, was the last to change
/// the rows.
Result<std::optional<ControlSums>> read_sums(Database& database);

/// Compares the sums. Errors: damaged_vault (names the first table that is not as it was written).
Status compare_sums(const ControlSums& stored, const ControlSums& found);

}  // namespace s3oram
