// The client's durable state in vault.db: the version and height of the tree, positions, the stash,
// sessions. All changes are made in transactions that also hold the participant's changes
// (Rule::one_transaction). One thread at a time.
//
// Tests identify each change by the name of its disk step (Disk::step): create, tables, raise,
// session, forget-sessions, forget-marks. A commit is named "decide" if it begins a new tree
// version, otherwise "intent" if it holds the record of an access that has not ended, otherwise
// "commit".
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "oramcore/client/bucket_row.h"
#include "oramcore/client/mark_table.h"
#include "oramcore/client/owner.h"
#include "oramcore/client/position_map.h"
#include "oramcore/db/finding.h"
#include "oramcore/db/sqlite.h"
#include "oramcore/protocol/messages.h"
#include "oramcore/protocol/params.h"
#include "oramcore/protocol/repair_messages.h"

namespace s3oram {

/// Returns the first access number of a session. Access numbers have the epoch in their upper bits,
/// so that those of a session are greater than those of all earlier ones.
constexpr std::uint64_t first_access(std::uint64_t epoch) { return (epoch << 40) + 1; }

/// The numbers that a commit fixes together with the positions.
struct TreeState {
  std::uint64_t tree_version = 0;  // number of evictions decided
  unsigned height = 1;             // H
  WriteNumber written = 0;         // root writes that all servers have acknowledged, without gaps
  EvictionId last_decided;         // the eviction that led to this version
};

/// The access to which a root write belongs. It is committed before the retrieval is sent, so that
/// the same path is asked for again after a crash, whatever is accessed next
/// (Rule::access_records).
struct AccessRecord {
  WriteNumber write_number = 0;
  BlockId block = 0;
  Leaf leaf = 0;             // names the path that is retrieved
  std::uint64_t access = 0;  // number of its root write, once all servers have acknowledged it
};

using ServersBySlot = std::map<SlotAddress, std::set<Party>>;

/// Repairs that have not ended (repair_record.h).
struct UnfinishedRepairs {
  std::set<Party> servers;  // some of their shares may not have been restored
  ServersBySlot unproven;   // restored shares that have not been compared with their marks
};

/// Contents of slots of the current tree version whose fresh shares may not be at all servers.
using Refreshes = std::map<SlotAddress, Bytes>;

/// The changes since the last commit: the newest value for each block.
struct StateChanges {
  struct Row {
    std::uint64_t packed = 0;
    std::uint64_t version = 0;
  };
  std::map<BlockId, std::optional<Row>> positions;  // std::nullopt if the block was forgotten
  std::map<BucketIndex, BucketRow> buckets;
  std::map<BlockId, std::optional<Bytes>> stash;         // std::nullopt if it left the stash
  std::map<std::uint16_t, AccessRecord> access_records;  // by root slot
  std::map<BlockId, bool> unreadable;                    // whether the block is unreadable
  std::set<BucketIndex> unmarked;  // buckets whose marks no longer hold; before `marks`
  std::map<BucketIndex, MarkRow> marks;
  std::optional<BlockId> maintained;                      // Loaded::maintained
  std::optional<std::set<Party>> left_out;                // Loaded::left_out
  std::optional<std::set<BucketIndex>> rewritten;         // Loaded::rewritten
  std::optional<UnfinishedRepairs> repairs;               // Loaded::repairs
  std::map<SlotAddress, std::optional<Bytes>> refreshes;  // std::nullopt if one has ended

  /// Returns the number of blocks that have another place, or lie in buckets that have changed.
  std::size_t places() const;
  /// Adds the changes of `older` that are not superseded here (after a failed commit).
  void merge_older(StateChanges older);
};

class ClientState {
 public:
  /// The format of the tables and of the sealed blocks. Since 3, blocks have labels, which a
  /// program that knows only 2 rejects. Since 4, the whole label is bound to the sealed block,
  /// which a program that knows only 3 cannot open. Since 5, table `buckets` says where a block
  /// lies, and takes precedence over the block's own row; since 6, it lists every block in a
  /// bucket. Since 7, labels of a mirror name their root slots, which a program that knows only 6
  /// rejects. Since 8, table `marks` has the servers' marks of buckets, which a program that knows
  /// only 7 would leave as they are when an eviction changes the buckets. A database of an older
  /// format is raised when it is loaded.
  static constexpr int kFormat = 8, kOldestFormat = 2, kFirstWithBuckets = 5, kFirstListed = 6;

  /// In table `repairs`, stands for the repair of the server, not for a bucket.
  static constexpr BucketIndex kNoBucket = 0;

  /// Creates the tables of a new volume in one transaction. Errors: exists.
  static Status create(const std::filesystem::path& file, unsigned first_height = 1,
                       Disk& disk = system_disk());
  struct Loaded;
  /// Creates the tables with this content, except for the stash, to replace a lost database.
  static Status create(const std::filesystem::path& file, const Loaded& content,
                       unsigned evict_every, Disk& disk = system_disk());
  /// Checks that create() would find nothing there. Errors: exists.
  static Status check_free(const std::filesystem::path& file, Disk& disk = system_disk());
  /// `disk` must outlive the state.
  static Result<ClientState> open(const std::filesystem::path& file, Disk& disk = system_disk());

  /// Creates, empty, the tables that a vault of an older version lacks.
  static Status make_missing_tables(Database& database);

  struct Loaded {
    TreeState tree;
    PositionMap positions;
    std::map<BlockId, Bytes> stash;
    std::set<BlockId> unreadable;              // last read failed; some no longer have a position
    std::vector<AccessRecord> access_records;  // those from first_write_number() on, in order
    std::vector<Session> sessions;             // ascending by epoch
    BlockId maintained = 0;           // blocks before this one were maintained most recently
    std::set<Party> left_out;         // servers of a mirror that lack data (in_step.h)
    std::set<BucketIndex> rewritten;  // buckets where those may hold other bytes, same stamp
    UnfinishedRepairs repairs;
    Refreshes refreshes;
    // By root slot, in any tree version: the access that wrote it last. 0 if its write may be under
    // way, std::nullopt if there was none.
    std::vector<std::optional<std::uint64_t>> root;
  };
  /// Loads the state; without `params`, does not load access records. Leaves out bad rows of
  /// positions and the stash (state_check.h), so that each costs only its block, and reports them
  /// in `findings`. Errors: damaged_vault, unsupported.
  Result<Loaded> load(const std::optional<VolumeParams>& params = {}, Findings* findings = nullptr);

  /// Sets the owner to record (keep_owner()) once every server has the session.
  void set_owner(const Owner& owner) { owner_ = owner; }

  /// Returns the marks that hold for a bucket of the tree (MarkTable::find()).
  Result<std::optional<MarkRow>> marks_of(BucketIndex bucket, unsigned height) {
    return marks_.find(bucket, height);
  }
  /// Durably forgets all marks, for a volume that no longer keeps them.
  Status forget_marks();

  /// Durably records a session, before any server hears of it.
  Status add_session(const Session& session);
  /// Forgets older sessions. Call it once every server has this one, because then the older ones
  /// cannot come back.
  Status forget_sessions_before(std::uint64_t epoch);

  /// Copies the log into the database file, so that a copy of that file is complete.
  Status fold_log() { return database_.fold_log(); }

  /// Returns whether the database has its ballast, so that there is room for more than deletions.
  /// Any thread.
  bool has_ballast() const { return database_.has_ballast(); }

  /// Commits the numbers, the changes, and the effects of `with` in one transaction. `with` may be
  /// empty, and runs again if the disk was full.
  Status commit(const TreeState& tree, const StateChanges& changes,
                const std::function<Status(Database&)>& with);

 private:
  ClientState() = default;
  Status require_empty();
  Status prepare_statements();
  /// Raises the tables from `format` to kFormat.
  Status raise_format(std::int64_t format, const PositionMap& positions);
  // Must be called in a transaction:
  Result<bool> is_without_buckets();
  Status insert_session(const Session& session);
  Status put_position(BlockId block, const StateChanges::Row& row);
  Status put_bucket(BucketIndex bucket, const BucketRow& row);
  Status put_buckets(const PositionMap& positions);
  Status put(const TreeState& tree, const StateChanges& changes);
  Status put_left_out(const std::set<Party>& servers);
  Status put_rewritten(const std::set<BucketIndex>& buckets);
  Status put_repairs(const UnfinishedRepairs& repairs);
  Status put_refreshes(const TreeState& tree, const StateChanges& changes);
  Status put_all(const Loaded& content, unsigned evict_every);

  Database database_;
  std::optional<Owner> owner_;
  std::uint64_t tree_version_ = 0;  // the last one loaded or committed
  Statement put_position_, erase_position_, put_bucket_, erase_bucket_, put_stash_, erase_stash_,
      put_access_record_, put_unreadable_, erase_unreadable_, put_maintained_, put_tree_;
  MarkTable marks_;
};

}  // namespace s3oram
