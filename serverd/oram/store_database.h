// The server's control state: its volume and session, the bucket versions of the present tree
// version, and the prepared eviction. Kept in memory as a table, and durably in SQLite
// (control.db).
//
// Control is wide because it is the whole interface to what a server must not forget: each method
// is one step of the protocol, durable when it returns. The rows are in ControlTables, the tree in
// BucketTable, the numbers in use in VersionNumbers.
//
// One thread at a time. Every change is durable when the method returns. Tests know each change as
// a step of the disk by its name (Disk::step): tables, create, adopt (a re-enrolment), rejoin,
// shares, session, attempt, prepared, flip (the installation of an eviction), discard, revert.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "oramcore/db/sqlite.h"
#include "oramcore/protocol/repair_messages.h"
#include "oramcore/protocol/store_size.h"
#include "serverd/oram/bucket_table.h"
#include "serverd/oram/control_tables.h"
#include "serverd/oram/taken_up.h"
#include "serverd/oram/version_numbers.h"
#include "serverd/store/bucket_store.h"

namespace s3oram {

/// The level of a bucket in the tree; the stash part is at the root, level 0.
constexpr unsigned depth_of(BucketIndex bucket) {
  return bucket >= kStashBucket ? 0 : level_of(bucket);
}

/// The buckets of a retrieval or eviction in their order (PathSlots): the stash part, then the path
/// to `leaf` from level 1 on.
std::vector<BucketIndex> path_buckets(const VolumeParams& params, Leaf leaf, unsigned height);

/// Returns the owner of a server's slots, as BucketStore takes it.
Bytes owner_of(const VolumeId& volume, Party server);

class Control {
 public:
  /// `disk` must outlive the result. Errors: damaged_vault (a page or a row is not as it was
  /// written).
  static Result<Control> open(const std::filesystem::path& file, Disk& disk = system_disk());

  /// Database::still_there().
  Status still_there() const { return tables_.database().still_there(); }
  /// Closes the database as it is; nothing can be changed any more.
  void abandon() { tables_.database().abandon(); }

  const std::optional<VolumeDescription>& volume() const { return volume_; }
  /// Whether bucket versions have stamps, and slots an owner: not in stores of format 2.
  bool has_stamps() const { return tables_.has_stamps(); }
  /// Whether the shares of the buckets are being repaired, so that missing ones are no sign of a
  /// wrong file. True from a re-enrolment on.
  bool shares_are_lost() const { return shares_are_lost_; }
  Status note_shares(bool lost);
  const Session& session() const { return session_; }
  std::uint64_t tree_version() const { return tree_version_; }
  const std::optional<EvictionId>& prepared() const { return prepared_; }

  /// Begins a new volume, and forgets any other.
  Status create(const VolumeDescription& volume);
  /// Begins a volume that is in use, once it has the last part of its buckets. Each gets a bucket
  /// version, whose content is still missing. Parts are kept in memory until then; a part of
  /// another session starts over. Errors: bad_request (such a tree has no such buckets, or they
  /// were told already), need_open (the parts before it came before a restart).
  Status reenrol(const ReenrolRequest& part);
  /// Takes up another tree version of its volume, in parts as reenrol() does. Buckets that it has,
  /// by their stamps, keep their bucket versions; the others are missing(). What was prepared, and
  /// the tree version before the present one, are dropped. Errors: as of reenrol().
  Status rejoin(const ReenrolRequest& part);
  /// The buckets of a mirror whose content is still to come since a rejoin() or reenrol(): until it
  /// is reported as found, or an eviction has written it.
  const std::set<BucketIndex>& missing() const { return missing_; }
  Status found(const std::set<BucketIndex>& buckets);
  /// Returns the buckets of the present tree version that are not empty, ascending.
  BucketVersions layout() const { return tree_.filled(); }
  /// Returns the buckets that the last eviction wrote; empty if there was none, or if a version
  /// without this record installed it.
  const std::vector<BucketIndex>& newest_buckets() const { return newest_; }
  Status set_session(const Session& session);

  /// Returns the bucket in a tree version: the present one, or the one before until it is released.
  Result<BucketVersionRef> bucket(BucketIndex bucket, std::uint64_t tree_version) const;
  unsigned height() const { return tree_.height(); }
  /// What is prepared, in no order.
  const BucketVersions& prepared_versions() const { return prepared_version_.versions; }
  /// Once what is prepared is committed.
  unsigned next_height() const { return prepared_ ? prepared_version_.height : height(); }
  /// Whether the database has its ballast, so that there is room for more than deletions.
  bool find_ballast() {
    tables_.database().restore_ballast();
    return tables_.database().has_ballast();
  }
  /// Whether it will also do for a tree that grows to this height: the commit then writes a row for
  /// each of its leaves.
  bool find_ballast(unsigned for_height) {
    constexpr std::uint64_t kFlipBytes = 128;  // for each leaf, in the log and the database
    return find_ballast() &&
           (for_height <= height() || tables_.database().enlarge_ballast(kFlipBytes << for_height));
  }
  /// Returns how many bucket versions a tree of this height can use at once: those of its buckets
  /// (after matrix evictions half of the inner ones are empty) and of the stash part, and those
  /// that an eviction prepares and replaces.
  std::uint64_t bucket_versions_needed(unsigned for_height) const {
    return s3oram::bucket_versions_needed(volume_->params, for_height);
  }

  /// The numbers of bucket versions, which callers reserve for what they prepare.
  VersionNumbers& numbers() { return numbers_; }

  /// Records, until the next commit, that an attempt was begun or must not begin any more.
  Status attempt(const EvictionId& id);
  bool attempted(const EvictionId& id) const { return attempts_.contains(id); }

  Status prepare(const EvictionId& id, unsigned next_height, const BucketVersions& versions);
  /// Installs the prepared bucket versions as tree version + 1. If the height grows by one, the
  /// version of every old leaf becomes that of both its children, so that its blocks lie one level
  /// deeper without being moved.
  Status commit();
  /// Drops the prepared eviction, and gives its numbers back.
  Status discard();
  /// Takes back the last commit if it was that of this attempt, so that the tree version before is
  /// the present one again. The attempt does not begin again. Possible until another attempt has
  /// begun, which may use the numbers of the version before; also after a restart. Returns whether
  /// it was taken back.
  Result<bool> revert(const EvictionId& id);
  /// Frees the bucket versions of the tree version before the present one.
  void release();

 private:
  Status load();
  /// Loads a table of buckets, and counts their versions as used.
  Result<BucketVersions> load_versions(std::string_view table);
  Status load_prepared();
  /// Compares the loaded rows with the stored sums. Adds sums to a store without them.
  Status check_sums();
  /// The missing buckets once these changes are made.
  std::set<BucketIndex> missing_after(const BucketVersions& changes) const;
  /// Takes up what was gathered. The buckets of this store count as lost, or by their stamps.
  enum class Content { lost, by_stamps };
  Status take_up(const ReenrolRequest& last, Content content);
  /// The bucket versions that were gathered, with the numbers of those that are here already.
  struct Numbered {
    BucketVersions versions;
    std::set<BucketIndex> missing;
  };
  Numbered number_taken_up(Content content) const;
  /// Loads everything again, after ControlTables::put_volume() has made the content of memory
  /// obsolete.
  Status load_again();
  /// Keeps what a commit changes, for revert(). To be called in its transaction.
  Status put_former(const BucketVersions& changes);
  /// What put_former() kept at the commit of this attempt; std::nullopt if it is another one's.
  Result<std::optional<OtherVersion>> load_former(const EvictionId& id);
  /// Gives each of the buckets this version.
  void replace(const BucketVersions& versions);

  ControlTables tables_;
  ControlSums sums_;  // of the stored rows
  std::optional<VolumeDescription> volume_;
  bool shares_are_lost_ = false;
  Session session_;
  std::uint64_t tree_version_ = 0;
  BucketTable tree_;
  std::optional<EvictionId> prepared_;
  OtherVersion prepared_version_;
  TakenUp taken_up_;
  std::set<BucketIndex> missing_;
  std::vector<BucketIndex> newest_;
  std::set<EvictionId> attempts_;
  bool has_former_ = false;
  std::unordered_map<BucketIndex, BucketVersionRef> former_;  // in the version before; differences
  VersionNumbers numbers_;
};

}  // namespace s3oram
