// The client's durable state in vault.db: the numbers of the tree, places, what the server holds of
// each bucket, accesses that have not ended, sessions. All changes are made in transactions that
// also hold the participant's changes (Rule::one_transaction). One thread at a time.
//
// Each change is a named step of the disk (Disk::step): create, session, forget-sessions. A commit
// is named "decide" if it begins a new tree version, otherwise "intent" if it holds the record of
// an access that has not ended, otherwise "commit".
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "oramcore/client/client_state.h"
#include "oramcore/client/owner.h"
#include "oramcore/db/finding.h"
#include "oramcore/db/sqlite.h"
#include "oramcore/schemes/ring/client/places.h"

namespace s3oram::ring {

/// The numbers that a commit fixes together with the places. Here, TreeState's tree version counts
/// rewrites.
struct RingTree : TreeState {
  std::uint64_t evictions = 0;  // the other rewrites are early reshuffles
  Turn synced = 0;              // writes of earlier turns are durable in top.cache
};

/// The access of a turn and what it asks for. It is committed before the question is sent, so that
/// the same is asked again after a crash, whatever is accessed next (Rule::access_records).
struct TurnRecord {
  BlockId block = 0;
  Leaf leaf = 0;  // names the path that is asked for
  std::vector<Ask> asks;
  friend bool operator==(const TurnRecord&, const TurnRecord&) = default;
  template <class A>
  void fields(A& a) {
    a(block, leaf, asks);
  }
};

/// The changes since the last commit: the newest value for each key.
struct RingChanges {
  std::map<BlockId, Place> places;
  std::map<BucketIndex, HeldBucket> buckets;
  std::map<Turn, std::optional<TurnRecord>> records;  // std::nullopt if the access has ended
  std::map<BlockId, bool> unreadable;                 // whether the block is unreadable
  // The accesses of turns that may not be durable in top.cache; std::nullopt once it is.
  std::map<Turn, std::optional<std::uint64_t>> logged;
  void merge_older(RingChanges older);
};

class RingState {
 public:
  static constexpr int kFormat = 1;

  /// Makes the tables of a new volume, either all or (if interrupted) none. Errors: exists.
  static Status create(const std::filesystem::path& file, unsigned first_height,
                       Disk& disk = system_disk());
  /// `disk` must outlive the state. Errors: unsupported, damaged_vault.
  static Result<RingState> open(const std::filesystem::path& file, Disk& disk = system_disk());

  struct Loaded {
    RingTree tree;
    Places places;
    std::map<BucketIndex, HeldBucket> buckets;
    std::map<Turn, TurnRecord> records;
    std::set<BlockId> unreadable;
    std::map<Turn, std::uint64_t> logged;  // turns from synced to written
    std::vector<Session> sessions;         // ascending by epoch
    /// Returns the number of turns that this vault knows of: no access with this number or a higher
    /// one has asked the server for anything.
    Turn turns() const {
      return records.empty() ? tree.written : std::max(tree.written, records.rbegin()->first + 1);
    }
  };
  /// Loads the state. Leaves out bad rows (ring_check.h), so that each costs only its block, and
  /// reports them in `findings`. Errors: damaged_vault, unsupported.
  Result<Loaded> load(const VolumeParams& params, Findings* findings = nullptr);

  /// Sets the owner to record (keep_owner()) once the server has the session.
  void set_owner(const Owner& owner) { owner_ = owner; }

  /// Stores the entire content of a new database (for a rebuild).
  Status put_all(const Loaded& content);

  /// Durably records a session, before the server hears of it.
  Status add_session(const Session& session);
  /// Forgets older sessions. Call it once the server has this one, because then they cannot come
  /// back.
  Status forget_sessions_before(std::uint64_t epoch);
  Status fold_log() { return database_.fold_log(); }
  bool has_ballast() const { return database_.has_ballast(); }

  /// Commits the numbers, the changes, and the effects of `with` (which may be empty) in one
  /// transaction.
  Status commit(const RingTree& tree, const RingChanges& changes,
                const std::function<Status(Database&)>& with);

 private:
  RingState() = default;
  // Must be called in a transaction:
  Status put(const RingTree& tree, const RingChanges& changes);
  Status put_block(BlockId block, const Place& place);
  Status put_record(Turn turn, const std::optional<TurnRecord>& record);
  Status insert_session(const Session& session);
  Status prepare_statements();

  Database database_;
  std::optional<Owner> owner_;
  std::uint64_t rewrites_ = 0;  // rewrites that the last commit counted
  Statement put_block_, erase_block_, put_bucket_, put_record_, erase_record_, put_unreadable_,
      erase_unreadable_, put_logged_, erase_logged_, put_tree_;
};

}  // namespace s3oram::ring
