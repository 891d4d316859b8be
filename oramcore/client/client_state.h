// The client's durable state in vault.db: the version and height of the tree, positions, the stash,
// sessions. Everything changes in transactions that also hold the participant's changes
// (Rule::one_transaction). One thread at a time.
//
// Tests know each change as a step of the disk by its name (Disk::step): create, tables, raise,
// session, forget-sessions. A commit is "decide" if it begins a new tree version, else "intent" if
// it holds the record of an access that has not ended, else "commit".
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "oramcore/client/bucket_row.h"
#include "oramcore/client/owner.h"
#include "oramcore/client/position_map.h"
#include "oramcore/db/finding.h"
#include "oramcore/db/sqlite.h"
#include "oramcore/protocol/messages.h"
#include "oramcore/protocol/params.h"

namespace s3oram {

/// Access numbers have the epoch in their upper bits, so that those of a session are newer than all
/// before.
constexpr std::uint64_t first_access(std::uint64_t epoch) { return (epoch << 40) + 1; }

/// The numbers that a commit fixes together with the positions.
struct TreeState {
  std::uint64_t tree_version = 0;  // evictions decided
  unsigned height = 1;             // H
  WriteNumber written = 0;         // root writes acknowledged by all servers, and all before them
  EvictionId last_decided;         // the eviction that led to this version
};

/// The access to which a root write belongs. It is committed before the retrieval is sent, so that
/// after a crash the same path is asked for again, whatever is accessed next
/// (Rule::access_records).
struct AccessRecord {
  WriteNumber write_number = 0;
  BlockId block = 0;
  Leaf leaf = 0;             // whose path is retrieved
  std::uint64_t access = 0;  // its root write's number, once all servers have acknowledged it
};

/// What has changed since the last commit, newest value for each block.
struct StateChanges {
  struct Row {
    std::uint64_t packed = 0;
    std::uint64_t version = 0;
  };
  std::map<BlockId, std::optional<Row>> positions;  // empty: forgotten
  std::map<BucketIndex, BucketRow> buckets;
  std::map<BlockId, std::optional<Bytes>> stash;         // sealed blocks; empty: no longer there
  std::map<std::uint16_t, AccessRecord> access_records;  // by root slot
  std::map<BlockId, bool> unreadable;                    // whether it is
  std::optional<BlockId> maintained;                     // Loaded::maintained
  std::optional<std::set<Party>> left_out;               // Loaded::left_out
  std::optional<std::set<BucketIndex>> rewritten;        // Loaded::rewritten

  /// The number of blocks that have another place, or lie in buckets that have changed.
  std::size_t places() const;
  /// Adds the changes of `older` that are not superseded here (after a failed commit).
  void merge_older(StateChanges older);
};

class ClientState {
 public:
  /// The format of the tables and of the sealed blocks. From 3 on blocks have labels, which a
  /// program that knows only 2 refuses. From 4 on the whole label is bound to the sealed block,
  /// which a program that knows only 3 cannot open. From 5 on table `buckets` says where a block
  /// lies, and takes precedence over the block's own row; from 6 on it lists every block in a
  /// bucket. From 7 on labels of a mirror name their root slots, which a program that knows only 6
  /// refuses. A database of an older format is raised when it is loaded.
  static constexpr int kFormat = 7, kOldestFormat = 2, kFirstWithBuckets = 5, kFirstListed = 6;

  /// Makes the tables of a new volume in one transaction. Errors: exists.
  static Status create(const std::filesystem::path& file, unsigned first_height = 1,
                       Disk& disk = system_disk());
  struct Loaded;
  /// Makes the tables with this content, without the stash, for a database that was lost.
  static Status create(const std::filesystem::path& file, const Loaded& content,
                       unsigned evict_every, Disk& disk = system_disk());
  /// Checks that create() would find nothing there. Errors: exists.
  static Status check_free(const std::filesystem::path& file, Disk& disk = system_disk());
  /// `disk` must outlive the state.
  static Result<ClientState> open(const std::filesystem::path& file, Disk& disk = system_disk());

  /// Makes, empty, the tables that a vault of an older version lacks.
  static Status make_missing_tables(Database& database);

  struct Loaded {
    TreeState tree;
    PositionMap positions;
    std::map<BlockId, Bytes> stash;
    std::set<BlockId> unreadable;              // last read failed; some may have no position left
    std::vector<AccessRecord> access_records;  // from first_write_number() on, in order
    std::vector<Session> sessions;             // ascending by epoch
    BlockId maintained = 0;    // the blocks before it were read and written back last (maintenance)
    std::set<Party> left_out;  // servers of a mirror that lack something (in_step.h)
    std::set<BucketIndex> rewritten;  // of which those may hold other bytes under the same stamp
    // By root slot, in any tree version: the access that wrote it last; 0 if that may be under way,
    // empty if there was none.
    std::vector<std::optional<std::uint64_t>> root;
  };
  /// Loads the state; without `params`, without access records. Leaves out bad rows of positions
  /// and the stash (state_check.h), so that each costs only its block, and reports them in
  /// `findings`. Errors: damaged_vault, unsupported.
  Result<Loaded> load(const std::optional<VolumeParams>& params = {}, Findings* findings = nullptr);

  /// Sets the owner that is recorded (keep_owner()) once every server has the session.
  void set_owner(const Owner& owner) { owner_ = owner; }

  /// Records a session durably, before any server hears of it.
  Status add_session(const Session& session);
  /// Forgets older sessions, once every server has this one: they cannot come back.
  Status forget_sessions_before(std::uint64_t epoch);

  /// Copies the log into the file, so that a copy of the file is complete.
  Status fold_log() { return database_.fold_log(); }

  /// Whether the database has its ballast, so that there is room for more than deletions. Any
  /// thread.
  bool has_ballast() const { return database_.has_ballast(); }

  /// Commits in one transaction the numbers, the changes, and `with` (which may be empty, and runs
  /// again if the disk was full).
  Status commit(const TreeState& tree, const StateChanges& changes,
                const std::function<Status(Database&)>& with);

 private:
  ClientState() = default;
  Status require_empty();
  Status prepare_statements();
  /// From this one on to kFormat.
  Status raise_format(std::int64_t format, const PositionMap& positions);
  // To be called in a transaction:
  Result<bool> is_without_buckets();
  Status insert_session(const Session& session);
  Status put_position(BlockId block, const StateChanges::Row& row);
  Status put_bucket(BucketIndex bucket, const BucketRow& row);
  Status put_buckets(const PositionMap& positions);
  Status put(const TreeState& tree, const StateChanges& changes);
  Status put_left_out(const std::set<Party>& servers);
  Status put_rewritten(const std::set<BucketIndex>& buckets);
  Status put_all(const Loaded& content, unsigned evict_every);

  Database database_;
  std::optional<Owner> owner_;
  std::uint64_t tree_version_ = 0;  // the last one loaded or committed
  Statement put_position_, erase_position_, put_bucket_, erase_bucket_, put_stash_, erase_stash_,
      put_access_record_, put_unreadable_, erase_unreadable_, put_maintained_, put_tree_;
};

}  // namespace s3oram
