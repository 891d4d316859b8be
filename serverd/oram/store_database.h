// The server's control state: its volume and session, the bucket versions of the current tree
// version, and the prepared eviction. It is kept in memory as a table, and durably in SQLite
// (control.db).
//
// Control is wide because it is the whole interface to what a server must not forget: each method
// is one step of the protocol. ControlTables holds the rows, BucketTable the tree, and
// VersionNumbers the numbers in use.
//
// Used by one thread at a time. Every change is durable when its method returns. Each change is a
// named step of the disk (Disk::step), which tests use: tables, create, adopt (a re-enrolment),
// rejoin, found, shares, session, sums, attempt, prepared, flip (the installation of an eviction),
// discard, revert.
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

/// Returns the level of a bucket in the tree; the stash part is at the root, level 0.
constexpr unsigned depth_of(BucketIndex bucket) {
  return bucket >= kStashBucket ? 0 : level_of(bucket);
}

/// Returns the owner of a server's slots, in the form that BucketStore takes.
Bytes owner_of(const VolumeId& volume, Party server);

class Control {
 public:
  /// `disk` must outlive the result. Errors: damaged_vault (a page or a row is not as it was
  /// written).
  static Result<Control> open(const std::filesystem::path& file, Disk& disk = system_disk());

  /// Calls Database::still_there().
  Status still_there() const { return tables_.database().still_there(); }
  /// Closes the database as it is. Nothing can be changed after that.
  void abandon() { tables_.database().abandon(); }

  const std::optional<VolumeDescription>& volume() const { return volume_; }
  /// Returns whether bucket versions have stamps and slots have an owner, which is not so in stores
  /// of format 2.
  bool has_stamps() const { return tables_.has_stamps(); }
  /// Returns whether the shares of the buckets are being repaired, so that missing shares are no
  /// sign of a wrong file. True from a re-enrolment on.
  bool shares_are_lost() const { return shares_are_lost_; }
  Status note_shares(bool lost);
  const Session& session() const { return session_; }
  std::uint64_t tree_version() const { return tree_version_; }
  const std::optional<EvictionId>& prepared() const { return prepared_; }

  /// Begins a new volume, and forgets any other.
  Status create(const VolumeDescription& volume);
  /// Takes a place in a volume that is in use, once the last part of its buckets has come. Each
  /// bucket gets a version, whose content is still missing. Earlier parts are kept in memory; a
  /// part of another session starts over. Errors: bad_request (such a tree has no such buckets, or
  /// they were given already), need_open (earlier parts came before a restart).
  Status reenrol(const ReenrolRequest& part);
  /// Takes up another tree version of the volume, in parts as reenrol() does. Buckets that this
  /// server has, by their stamps, keep their bucket versions; the others become missing(). Drops
  /// what was prepared, and the tree version before the current one. Errors: those of reenrol().
  Status rejoin(const ReenrolRequest& part);
  /// Returns the buckets of a mirror whose content is missing since a rejoin() or reenrol(). A
  /// bucket stays missing until it is reported as found, or an eviction has written it.
  const std::set<BucketIndex>& missing() const { return missing_; }
  Status found(const std::set<BucketIndex>& buckets);
  /// Returns the buckets of the current tree version that are not empty, in ascending order.
  BucketVersions layout() const { return tree_.filled(); }
  /// Returns the buckets that the last eviction wrote; empty if there was none, or if a program
  /// without this record installed it.
  const std::vector<BucketIndex>& newest_buckets() const { return newest_; }
  Status set_session(const Session& session);

  /// Returns the bucket in a tree version: the current one, or the one before until it is released.
  Result<BucketVersionRef> bucket(BucketIndex bucket, std::uint64_t tree_version) const;
  unsigned height() const { return tree_.height(); }
  /// Returns the prepared versions, in no order.
  const BucketVersions& prepared_versions() const { return prepared_version_.versions; }
  /// Returns the height that the tree will have once what is prepared is committed.
  unsigned next_height() const { return prepared_ ? prepared_version_.height : height(); }
  /// Returns whether the database has its ballast, so that there is room for more than deletions.
  /// Tries to restore the ballast first.
  bool find_ballast() {
    tables_.database().restore_ballast();
    return tables_.database().has_ballast();
  }
  /// Does the same, with a ballast that also suffices for the commit of a tree that grows to this
  /// height, which writes a row for each leaf.
  bool find_ballast(unsigned for_height) {
    constexpr std::uint64_t kFlipBytes = 128;  // bytes for each leaf, in the log and the database
    return find_ballast() &&
           (for_height <= height() || tables_.database().enlarge_ballast(kFlipBytes << for_height));
  }
  /// Returns how many bucket versions a tree of this height can use at the same time: those of its
  /// buckets (after matrix evictions half of the inner ones are empty) and of the stash part, and
  /// those that an eviction prepares and replaces.
  std::uint64_t bucket_versions_needed(unsigned for_height) const {
    return s3oram::bucket_versions_needed(volume_->params, for_height);
  }

  /// Returns the numbers of bucket versions. Callers reserve numbers in it for what they prepare.
  VersionNumbers& numbers() { return numbers_; }

  /// Records, until the next commit, that an attempt has begun or must not begin.
  Status attempt(const EvictionId& id);
  bool attempted(const EvictionId& id) const { return attempts_.contains(id); }

  Status prepare(const EvictionId& id, unsigned next_height, const BucketVersions& versions);
  /// Installs the prepared bucket versions as tree version + 1. If the height grows by one, the
  /// version of every old leaf becomes that of both its children, so that its blocks lie one level
  /// deeper without being moved.
  Status commit();
  /// Drops the prepared eviction, and gives back its numbers.
  Status discard();
  /// Takes back the last commit if it was that of this attempt, so that the previous tree version
  /// is the current one again. The attempt cannot begin again. This is possible, even after a
  /// restart, until another attempt has begun, because that may use the numbers of the previous
  /// version. Returns whether the commit was taken back.
  Result<bool> revert(const EvictionId& id);
  /// Frees the bucket versions of the tree version before the current one.
  void release();

 private:
  Status load();
  /// Loads a table of buckets, and counts their versions as used.
  Result<BucketVersions> load_versions(std::string_view table);
  Status load_prepared();
  /// Compares the loaded rows with the stored sums. Adds sums to a store without them.
  Status check_sums();
  /// Returns which buckets are missing once these changes are made.
  std::set<BucketIndex> missing_after(const BucketVersions& changes) const;
  /// Takes up what was gathered. The buckets in this store either count as lost, or are kept if
  /// their stamps match.
  enum class Content { lost, by_stamps };
  Status take_up(const ReenrolRequest& last, Content content);
  /// The gathered bucket versions, with the numbers of those that this store already has.
  struct Numbered {
    BucketVersions versions;
    std::set<BucketIndex> missing;
  };
  Numbered number_taken_up(Content content) const;
  /// Loads everything again, after ControlTables::put_volume() has made the content of memory
  /// obsolete.
  Status load_again();
  /// Stores the versions that a commit replaces, for revert(). Call it in the commit's transaction.
  Status put_former(const BucketVersions& changes);
  /// Returns what put_former() stored at the commit of this attempt; std::nullopt if it stored
  /// another attempt's.
  Result<std::optional<OtherVersion>> load_former(const EvictionId& id);
  /// Gives each of the buckets this version.
  void replace(const BucketVersions& versions);

  ControlTables tables_;
  ControlSums sums_;  // sums over the stored rows
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
  std::unordered_map<BucketIndex, BucketVersionRef> former_;  // the previous tree version's
                                                              // differences
  VersionNumbers numbers_;
};

}  // namespace s3oram
