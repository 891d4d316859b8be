// The client's durable state in vault.db: the numbers of the tree, places, what the server holds of
// each bucket, accesses that have not ended, sessions. Everything changes in transactions that also
// hold the participant's changes (Rule::one_transaction). One thread at a time.
//
// To the disk, each change is a step of a name (Disk::step): create, session, forget-sessions; a
// commit is "decide" if it begins a new view, else "intent" if it holds the record of an access
// that has not ended, else "commit".
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

/// The numbers that a commit fixes together with the places. TreeState's tree version counts
/// rewrites here.
struct RingTree : TreeState {
  std::uint64_t evictions = 0;  // of the rewrites, the others are early reshuffles
  Turn synced = 0;              // top.cache has durably what the turns before wrote
};

/// The access of a turn and what it asks for: committed before the question is sent, so that after
/// a crash the same is asked again, whatever is accessed next (Rule::access_records).
struct TurnRecord {
  BlockId block = 0;
  Leaf leaf = 0;  // whose path is asked
  std::vector<Ask> asks;
  friend bool operator==(const TurnRecord&, const TurnRecord&) = default;
  template <class A>
  void fields(A& a) {
    a(block, leaf, asks);
  }
};

/// What has changed since the last commit, newest value for each.
struct RingChanges {
  std::map<BlockId, Place> places;
  std::map<BucketIndex, HeldBucket> buckets;
  std::map<Turn, std::optional<TurnRecord>> records;  // nothing: it has ended
  std::map<BlockId, bool> unreadable;                 // whether it is
  // The accesses of turns that top.cache may not have durably; nothing: it has.
  std::map<Turn, std::optional<std::uint64_t>> logged;
  void merge_older(RingChanges older);
};

class RingState {
 public:
  static constexpr int kFormat = 1;

  /// Makes the tables of a new volume, all or (if it is cut short) none. Errors: exists.
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
    std::map<Turn, std::uint64_t> logged;  // of turns from synced to written
    std::vector<Session> sessions;         // ascending by epoch
    /// The turns that this vault knows of: no server was asked by one of a higher number.
    Turn turns() const {
      return records.empty() ? tree.written : std::max(tree.written, records.rbegin()->first + 1);
    }
  };
  /// Leaves out bad rows (ring_check.h), so that each costs only its block, and reports them in
  /// `findings`. Errors: damaged_vault, unsupported.
  Result<Loaded> load(const VolumeParams& params, Findings* findings = nullptr);

  /// Sets the owner that is recorded (keep_owner()) once the server has the session.
  void set_owner(const Owner& owner) { owner_ = owner; }

  /// Of a new database, all of it (a rebuild).
  Status put_all(const Loaded& content);

  /// Remembers a session durably, before the server hears of it.
  Status add_session(const Session& session);
  /// The server has this session: the older ones cannot come back.
  Status forget_sessions_before(std::uint64_t epoch);
  Status fold_log() { return database_.fold_log(); }
  bool has_ballast() const { return database_.has_ballast(); }

  /// One transaction: the numbers, the changes, and `with` (which may be empty).
  Status commit(const RingTree& tree, const RingChanges& changes,
                const std::function<Status(Database&)>& with);

 private:
  RingState() = default;
  // In a transaction:
  Status put(const RingTree& tree, const RingChanges& changes);
  Status put_block(BlockId block, const Place& place);
  Status put_record(Turn turn, const std::optional<TurnRecord>& record);
  Status insert_session(const Session& session);
  Status prepare_statements();

  Database database_;
  std::optional<Owner> owner_;
  std::uint64_t rewrites_ = 0;  // of the last commit
  Statement put_block_, erase_block_, put_bucket_, put_record_, erase_record_, put_unreadable_,
      erase_unreadable_, put_logged_, erase_logged_, put_tree_;
};

}  // namespace s3oram::ring
