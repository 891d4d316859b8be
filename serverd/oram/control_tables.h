// The tables of control.db, and their rows. Control (store_database.h) knows how the rows belong
// together.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "oramcore/db/sqlite.h"
#include "serverd/oram/bucket_table.h"
#include "serverd/oram/store_sums.h"

namespace s3oram {

/// The row of the volume.
struct VolumeRow {
  VolumeDescription volume;
  Session session;
  std::uint64_t tree_version = 0;
  unsigned height = 0;
};

/// A prepared tree version, or the one before the current one.
struct OtherVersion {
  unsigned height = 0;
  BucketVersions versions;  // versions of the buckets that differ
};

/// Used by one thread at a time. Call the methods that put rows in a transaction.
class ControlTables {
 public:
  /// Opens the database, and creates missing tables. `disk` must outlive the result. Errors:
  /// damaged_vault (a page is not as it was written), unsupported.
  static Result<ControlTables> open(const std::filesystem::path& file, Disk& disk);

  Database& database() { return database_; }
  const Database& database() const { return database_; }
  /// Runs `fill`, which puts rows, and stores the sums of all rows, in one transaction.
  Status change(std::string_view step, const ControlSums& sums,
                const std::function<Status()>& fill);

  /// Returns the format of the tables. In all formats but the oldest, bucket versions have stamps
  /// and slots have an owner.
  std::int64_t format() const;
  /// Returns the format of new tables.
  static std::int64_t newest_format();
  bool has_stamps() const { return has_stamps_; }
  /// Sets whether bucket rows that are put from now on have stamps. Returns the previous setting.
  bool exchange_stamps(bool has) { return std::exchange(has_stamps_, has); }

  /// Returns the volume's row, if there is one. Errors, here and below: damaged_vault.
  Result<std::optional<VolumeRow>> load_volume();
  /// Calls each(bucket, ref) for the rows of a table of buckets. Every row must be a bucket that
  /// `tree` can have.
  using EachVersion = std::function<void(BucketIndex, const BucketVersionRef&)>;
  Status load_versions(std::string_view table, const BucketTable& tree, std::uint32_t bucket_size,
                       const EachVersion& each);
  struct PreparedRow {
    EvictionId id;
    unsigned next_height = 0;
  };
  Result<std::optional<PreparedRow>> load_prepared(unsigned height);
  Result<std::vector<EvictionId>> load_attempts();
  Result<bool> load_lost_shares();
  Result<std::vector<BucketIndex>> load_buckets(std::string_view table);
  struct FormerRow {
    unsigned height = 0;
    std::uint64_t sum = 0;
  };
  Result<std::optional<FormerRow>> load_former(const EvictionId& id);

  /// Stores a volume without buckets, and drops everything else.
  Status put_volume(const VolumeRow& row);
  Status put_session(const Session& session);
  Status put_tree(std::uint64_t tree_version, unsigned height);
  Status put_lost_shares(bool lost);
  Status put_missing(const std::set<BucketIndex>& before, const std::set<BucketIndex>& after);
  Status put_newest(const BucketVersions& versions);
  /// Writes all of these into a table of buckets.
  Status put_versions(std::string_view table, const BucketVersions& versions);
  /// Applies these changes to the table `buckets`; an empty bucket has no row.
  Status change_buckets(const BucketVersions& changes);
  Status put_attempt(const EvictionId& id);
  Status put_prepared(const EvictionId& id, const OtherVersion& prepared);
  Status drop_prepared();
  Status drop_attempts();
  Status put_former(const EvictionId& id, const OtherVersion& former);
  Status drop_former();

 private:
  Status make();

  Database database_;
  bool has_stamps_ = true;
};

}  // namespace s3oram
