// The server's control state: which volume and session, which frame is which bucket in the present
// view, and what is prepared. Kept in memory as a table and durably in SQLite (control.db).
//
// One thread at a time. Every change is durable when the method returns; to the disk each is a step
// of a name (Disk::step): tables, create, adopt, shares, session, attempt, prepared, flip, discard.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "oramcore/db/sqlite.h"
#include "oramcore/protocol/repair_messages.h"
#include "oramcore/protocol/store_size.h"
#include "serverd/oram/store_sums.h"
#include "serverd/store/bucket_store.h"

namespace s3oram {

/// The root's stash part as buckets, beside those of the tree: kStashBucket + 0, 1, ... (The root
/// itself has none: its new writes lie in the ring, bucket_version_store.h.)
constexpr BucketIndex kStashBucket = BucketIndex{1} << 40;

/// How deep in the tree a bucket is: the stash part at the root, level 0.
constexpr unsigned depth_of(BucketIndex bucket) {
  return bucket >= kStashBucket ? 0 : level_of(bucket);
}

/// The buckets of a retrieval or eviction in their order (PathSlots): the stash part, then the path
/// to `leaf` from level 1 on.
std::vector<BucketIndex> path_buckets(const VolumeParams& params, Leaf leaf, unsigned height);

/// Whose slots a server's are (BucketStore).
Bytes owner_of(const VolumeId& volume, Party server);

class Control {
 public:
  /// `disk` must outlive it. Errors: damaged_vault if a page or a row is not as it was written.
  static Result<Control> open(const std::filesystem::path& file, Disk& disk = system_disk());

  /// Database::still_there().
  Status still_there() const { return database_.still_there(); }
  /// Lets go of the database as it is; nothing can be changed any more.
  void abandon() { database_.abandon(); }

  const std::optional<VolumeDescription>& volume() const { return volume_; }
  /// Whether frames have stamps, and slots an owner: not in stores of format 2.
  bool has_stamps() const { return has_stamps_; }
  /// Whether the shares of the buckets are being made anew: then it says nothing that they are not
  /// there. Adoption begins with it.
  bool shares_are_lost() const { return shares_are_lost_; }
  Status note_shares(bool lost);
  const Session& session() const { return session_; }
  std::uint64_t tree_version() const { return tree_version_; }
  const std::optional<EvictionId>& prepared() const { return prepared_; }

  /// Forgets what was there.
  Status create(const VolumeDescription& volume);
  /// The same, for a volume in use, with the last part of its buckets: each has a frame, whose
  /// content is not there. Parts are kept in memory until then; another session's begin anew.
  /// Errors: bad_request (these buckets are none of such a tree, or were told already), need_open
  /// (the parts before it were told to an earlier life).
  Status reenrol(const ReenrolRequest& part);
  /// The buckets of the present view that have a frame, ascending.
  BucketVersions layout() const;
  Status set_session(const Session& session);

  /// The bucket in `view`: the present one, or the one before until it is released.
  Result<BucketVersionRef> bucket(BucketIndex bucket, std::uint64_t tree_version) const;
  unsigned height() const { return height_; }
  /// What is prepared, in no order.
  const BucketVersions& prepared_versions() const { return prepared_versions_.versions; }
  /// Once what is prepared is committed.
  unsigned next_height() const { return prepared_ ? prepared_versions_.next_height : height_; }
  /// Whether there is room for more than what gives room back.
  bool find_ballast() {
    database_.restore_ballast();
    return database_.has_ballast();
  }
  /// The same, once the tree has grown to this height: the flip writes a row for each of its
  /// leaves.
  bool find_ballast(unsigned height) {
    constexpr std::uint64_t kFlipBytes = 128;  // of a leaf, in the log and the database
    return find_ballast() && (height <= height_ || database_.enlarge_ballast(kFlipBytes << height));
  }
  /// Frames that a tree of this height can use at once: its buckets (after matrix evictions half
  /// of the inner ones are empty), the stash part, and the versions that an eviction prepares and
  /// replaces.
  std::uint64_t bucket_versions_needed(unsigned height) const {
    return s3oram::bucket_versions_needed(volume_->params, height);
  }

  /// A frame that nothing uses. It stays reserved until it is given back; what refers to it by
  /// then (a prepared eviction) keeps it.
  BucketVersionNumber allocate();
  void give_back(BucketVersionNumber bucket_version);
  /// The same frame once more (what copy-on-write avoids).
  BucketVersionNumber reuse(BucketVersionNumber bucket_version) {
    use(bucket_version);
    return bucket_version;
  }

  /// The frames that have come out of use since the last call. (Some may be in use again.)
  std::vector<BucketVersionNumber> take_freed() { return std::exchange(freed_, {}); }

  /// Remembers, until the next commit, that an attempt was begun or must not begin any more.
  Status attempt(const EvictionId& id);
  bool attempted(const EvictionId& id) const { return attempts_.contains(id); }

  Status prepare(const EvictionId& id, unsigned next_height, const BucketVersions& versions);
  /// Flips to the prepared versions: view + 1. If the height grows by one, every old leaf's frame
  /// becomes both of its children's, so that its blocks lie one level deeper without being moved.
  Status commit();
  /// Drops what is prepared; gives its frames back.
  Status discard();
  /// Lets the versions of the former view go.
  void release();

 private:
  struct PreparedVersions {
    unsigned next_height = 0;
    BucketVersions versions;
  };
  /// What has been told of a volume to be adopted.
  struct Reenrolled {
    Session session;
    BucketVersions versions;
    BucketVersionNumber bucket_versions = 0;
  };
  Status load();
  /// Whether there is a volume.
  Result<bool> load_volume();
  /// Calls each(bucket, ref) for the rows of a table of buckets, whose frames are in use then.
  template <class Each>
  Status load_versions(std::string_view table, Each each);
  Status load_prepared();
  Status load_attempts();
  /// Compares what was loaded with the stored sums. A store without them has them from now on.
  Status check_sums();
  Status load_lost_shares();
  Status put_lost_shares(bool lost);
  Status make_tables();
  std::int64_t format() const;
  Status add_reenrolled(const ReenrolRequest& part);
  Status put_volume(const VolumeDescription& volume, const Session& session,
                    std::uint64_t tree_version, unsigned height);
  /// After a new volume was put: what was in memory is of none.
  Status load_again();
  /// Into a table of buckets, all of these.
  Status put_buckets(std::string_view table, const BucketVersions& versions);
  Status write_buckets(const BucketVersions& changes);
  BucketVersions changes_of_commit() const;
  void use(BucketVersionNumber bucket_version);
  void unuse(BucketVersionNumber bucket_version);
  std::size_t bucket_slots() const { return bucket_count(height_) + 1; }
  bool possible(BucketIndex bucket) const {
    return bucket >= kStashBucket ? bucket - kStashBucket < stash_.size()
                                  : bucket > kRoot && bucket < buckets_.size();
  }
  BucketVersionRef& present(BucketIndex bucket) {
    return bucket >= kStashBucket ? stash_[bucket - kStashBucket] : buckets_[bucket];
  }
  /// More than three views of the whole tree can never be in use at once.
  std::int64_t most_bucket_versions() const {
    return 3 * static_cast<std::int64_t>(bucket_slots() + stash_.size());
  }

  Database database_;
  ControlSums sums_;  // of the rows as they are stored
  std::optional<VolumeDescription> volume_;
  bool has_stamps_ = true, shares_are_lost_ = false;
  Session session_;
  std::uint64_t tree_version_ = 0;
  unsigned height_ = 0;
  std::vector<BucketVersionRef> buckets_;  // by BucketIndex
  std::vector<BucketVersionRef> stash_;    // by BucketIndex from kStashBucket on
  std::optional<EvictionId> prepared_;
  PreparedVersions prepared_versions_;
  Reenrolled reenrolled_;
  std::set<EvictionId> attempts_;
  bool has_former_ = false;
  std::unordered_map<BucketIndex, BucketVersionRef> former_;  // the former view, where it differs
  std::vector<std::uint32_t> users_;                          // of each frame
  std::set<BucketVersionNumber> free_;
  std::vector<BucketVersionNumber> freed_;
};

}  // namespace s3oram
