// Reads the client's tables, and judges each row.
#include "oramcore/client/state_check.h"

#include <algorithm>

#include "oramcore/base/format_number.h"
#include "oramcore/client/state_reading.h"
#include "oramcore/protocol/repair_messages.h"

namespace s3oram {
namespace {

constexpr int kFormat = ClientState::kFormat;
// The engine's arrays cannot hold more.
constexpr std::int64_t kMostBlockNumbers = std::int64_t{1} << 32;

class Reading : StateReading {
 public:
  Reading(Database& database, const std::optional<VolumeParams>& params)
      : StateReading(database, check_.findings, check_.refused), params_(params) {}

  StateCheck all() {
    read_tree();
    if (!check_.refused) read_sessions(check_.state.sessions);
    if (!check_.refused) read_stash();
    if (!check_.refused) read_access_records();
    if (!check_.refused) read_buckets();
    if (!check_.refused) read_positions();
    if (!check_.refused && params_) check_slots();
    if (!check_.refused) read_unreadable();
    if (!check_.refused) read_maintained();
    if (!check_.refused) read_left_out();
    if (!check_.refused) read_rewritten();
    if (!check_.refused) read_repairs();
    if (!check_.refused) read_refreshes();
    if (!check_.refused) drop_strays();
    return std::move(check_);
  }

 private:
  void read_tree() {
    bool found = false;
    read("tree", "SELECT format, view, height, written, eviction, attempt FROM tree",
         [&](const Statement& row) {
           found = true;
           check_.format = row.integer(0);
           if (row.integer(0) < ClientState::kOldestFormat || row.integer(0) > kFormat)
             return refuse("tree",
                           unknown_format(database_.path(), row.integer(0), kFormat).value());
           TreeState& tree = check_.state.tree;
           tree.tree_version = static_cast<std::uint64_t>(row.integer(1));
           tree.height = static_cast<unsigned>(row.integer(2));
           tree.written = static_cast<WriteNumber>(row.integer(3));
           tree.last_decided.eviction = static_cast<std::uint64_t>(row.integer(4));
           const Bytes attempt = row.blob(5);
           if (attempt.size() != tree.last_decided.attempt.size() || row.integer(1) < 0 ||
               row.integer(2) < 1 || row.integer(2) > kMaxHeight || row.integer(3) < 0 ||
               (params_ &&
                (tree.written < first_write_number(tree.tree_version, params_->evict_every) ||
                 tree.written > end_write_number(tree.tree_version, params_->evict_every))))
             return damaged("tree", "impossible numbers in table tree");
           // A tree grows when it is full, so its height gives a lower bound for the number of
           // evictions.
           if (params_ && tree.height > std::max<unsigned>(2, params_->first_height) &&
               std::uint64_t{1} << (tree.height - 3) > tree.tree_version + 2)
             return damaged("tree", "impossible height in table tree");
           std::copy(attempt.begin(), attempt.end(), tree.last_decided.attempt.begin());
         });
    if (!found && !check_.refused) damaged("tree", "table tree is empty");
  }

  void read_stash() {
    read("stash", "SELECT block, sealed FROM stash ORDER BY block", [&](const Statement& row) {
      const std::int64_t block = row.integer(0);
      if (block < 0 || block >= kMostBlockNumbers)
        stray(block);
      else
        check_.state.stash[static_cast<BlockId>(block)] = row.blob(1);
    });
  }

  void read_buckets() {
    const unsigned height = check_.state.tree.height;
    const auto most = static_cast<BlockId>(most_blocks(height, params_));
    check_.state.positions.reset(height);
    if (check_.format < ClientState::kFirstWithBuckets) return refuse_later_rows();
    read("buckets", "SELECT bucket, blocks FROM buckets ORDER BY bucket", [&](const Statement& at) {
      const auto bucket = static_cast<BucketIndex>(at.integer(0));
      const auto row = decode_row(bucket, at.blob(1));
      if (bucket < kRoot || bucket > bucket_count(height) || !row) {
        check_.bad_buckets.push_back(at.integer(0));
        check_.findings.push_back({"bad-bucket", "vault.db, table buckets",
                                   fmt::format("the list of the blocks in bucket {} is damaged: "
                                               "it is no longer known where these blocks lie; "
                                               "they are named below",
                                               at.integer(0)),
                                   "the row is dropped"});
        return;
      }
      if (row->at_leaf && level_of(bucket) < height) check_.state.positions.set_undivided(bucket);
      for (const Resident& resident : row->blocks)
        if (resident.block < most) list(bucket, row->at_leaf, resident);
    });
  }

  /// Refuses a format number that was damaged so that it looks like an older one.
  void refuse_later_rows() {
    const auto there = database_.has_table("buckets");
    if (!there) return refuse("buckets", there.error());
    if (!*there) return;
    read("tree", "SELECT 1 FROM buckets LIMIT 1", [&](const Statement&) {
      damaged("tree", fmt::format("the format is given as {}, but the rows have a later one",
                                  check_.format));
    });
  }

  void list(BucketIndex bucket, bool at_leaf, const Resident& resident) {
    if (resident.block >= listed_.size()) listed_.resize(resident.block + 1);
    Listed& listed = listed_[resident.block];
    if (listed.bucket != kInNone && listed.version > resident.version) return;
    const bool twice = listed.bucket != kInNone && listed.version == resident.version;
    listed = {resident.version, twice ? kInTwo : bucket, at_leaf, resident.slot};
  }

  /// Returns where the block lies, according to its own row and its bucket's row. Without the
  /// latter, the block lies where its access put it, in the root buffer. If its own row then gives
  /// a place in a bucket, that place is outdated, and the row of the newer place is lost.
  Position overlaid(BlockId block, Position position) const {
    if (position.kind != Position::Kind::tree) return position;
    const Listed listed = block < listed_.size() ? listed_[block] : Listed();
    if (listed.bucket == kInNone || listed.version != position.version)
      return check_.format < ClientState::kFirstListed || is_in_root_buffer(position) ? position
                                                                                      : Position();
    const unsigned level = level_of(listed.bucket), height = check_.state.tree.height;
    if (bucket_on_path(position.leaf, level) != listed.bucket) return {};
    position.level = static_cast<std::uint8_t>(listed.at_leaf ? height : level);
    position.slot = listed.slot;
    return position;
  }

  void read_positions() {
    const unsigned height = check_.state.tree.height;
    const std::int64_t most = most_blocks(height, params_);
    read("positions",
         "SELECT block, position, version, typeof(position) = 'integer' AND typeof(version) = "
         "'integer' FROM positions ORDER BY block",
         [&](const Statement& row) {
           const std::int64_t block = row.integer(0);
           const Position position =
               overlaid(static_cast<BlockId>(block),
                        PositionMap::unpack(static_cast<std::uint64_t>(row.integer(1)),
                                            static_cast<std::uint64_t>(row.integer(2)), height));
           if (block < 0 || block >= most)
             return bad_position(block, "its number is too large for this volume");
           if (row.integer(3) == 0 || !possible(position))
             return bad_position(block, "there is no such place in the tree");
           if (position.kind == Position::Kind::stash &&
               !check_.state.stash.contains(static_cast<BlockId>(block)))
             return bad_position(block, "it should be in table stash, but is not");
           check_.state.positions.set(static_cast<BlockId>(block), position);
         });
  }

  void forget_writer(std::int64_t slot) {
    const auto at = static_cast<std::size_t>(slot);
    if (at < check_.state.root.size()) check_.state.root[at] = 0;
  }

  /// Reads access records. Those of earlier tree versions no longer mean anything. If one is
  /// missing, the next mount may ask for a different path than the crashed one did: servers then
  /// see one more access, with no other effect.
  void read_access_records() {
    if (!params_) return;
    const auto note = [&](std::int64_t slot, std::string_view what, std::string repair) {
      check_.findings.push_back(
          {"intent", "vault.db, table intents",
           fmt::format(
               "the record of the access under way in root slot {} is {}; no data depends on it",
               slot, what),
           std::move(repair)});
    };
    const unsigned every = params_->evict_every;
    const WriteNumber first = first_write_number(check_.state.tree.tree_version, every);
    const WriteNumber end = end_write_number(check_.state.tree.tree_version, every);
    std::map<WriteNumber, AccessRecord> found;
    check_.state.root.resize(params_->root_buffer_slots());
    read("intents",
         "SELECT slot, turn, block, leaf, access, typeof(turn) = 'integer' AND typeof(block) = "
         "'integer' AND typeof(leaf) = 'integer' AND typeof(access) = 'integer' FROM intents "
         "ORDER BY slot",
         [&](const Statement& row) {
           const std::int64_t slot = row.integer(0), leaf = row.integer(3);
           const auto write_number = static_cast<WriteNumber>(row.integer(1));
           if (row.integer(5) == 0 || leaf < 0 || leaf >= std::int64_t{1} << kLeafBits ||
               slot != root_slot(write_number, every) || write_number >= end) {
             check_.bad_access_records.push_back(slot);
             forget_writer(slot);
             if (row.integer(5) != 0 && write_number < end)
               forget_writer(root_slot(write_number, every));
             return note(slot, "damaged", "the row is dropped");
           }
           check_.state.root[static_cast<std::size_t>(slot)] =
               static_cast<std::uint64_t>(row.integer(4));
           if (write_number < first) return;
           found[write_number] = {.write_number = write_number,
                                  .block = static_cast<BlockId>(row.integer(2)),
                                  .leaf = static_cast<Leaf>(leaf),
                                  .access = static_cast<std::uint64_t>(row.integer(4))};
         });
    // The last acknowledged records may be missing, because older versions did not write them.
    const WriteNumber noted = found.empty() ? first : found.rbegin()->first + 1;
    const WriteNumber last = std::max(noted, std::min(check_.state.tree.written, end));
    for (WriteNumber write_number = first; write_number < last; ++write_number) {
      if (!found.contains(write_number)) forget_writer(root_slot(write_number, every));
      if (!found.contains(write_number) && write_number < noted) {
        check_.missing_access_records.push_back(write_number);
        note(root_slot(write_number, every), "missing", "a record without a block takes its place");
      }
      check_.state.access_records.push_back(found.contains(write_number)
                                                ? found[write_number]
                                                : AccessRecord{.write_number = write_number});
    }
  }

  /// Reads the block from which maintenance continues. A wrong number does no harm, because
  /// maintenance visits all blocks in turn.
  void read_maintained() {
    read("maintained", "SELECT block FROM maintained", [&](const Statement& row) {
      check_.state.maintained = static_cast<BlockId>(row.integer(0));
    });
  }

  void read_left_out() {
    read("left_out", "SELECT server FROM left_out", [&](const Statement& row) {
      check_.state.left_out.insert(static_cast<Party>(row.integer(0)));
    });
  }

  // Leaves out buckets that this tree does not have, because no server could answer for them.
  void read_rewritten() {
    const std::uint64_t last = bucket_count(check_.state.tree.height);
    read("rewritten", "SELECT bucket FROM rewritten", [&](const Statement& row) {
      const auto bucket = static_cast<BucketIndex>(row.integer(0));
      if (bucket >= kRoot && bucket <= last) check_.state.rewritten.insert(bucket);
    });
  }

  // Leaves out servers and slots that do not exist, because nobody could answer for them.
  void read_repairs() {
    const std::uint64_t last = bucket_count(check_.state.tree.height);
    UnfinishedRepairs& repairs = check_.state.repairs;
    read("repairs", "SELECT server, bucket, slot FROM repairs", [&](const Statement& row) {
      if (!params_ || row.integer(0) < 1 || row.integer(0) > params_->scheme.servers) return;
      const auto server = static_cast<Party>(row.integer(0));
      const auto bucket = static_cast<BucketIndex>(row.integer(1));
      if (bucket == ClientState::kNoBucket)
        repairs.servers.insert(server);
      else if (bucket <= last && row.integer(2) >= 0 && row.integer(2) < slots_in(bucket))
        repairs.unproven[{bucket, static_cast<std::uint16_t>(row.integer(2))}].insert(server);
    });
  }

  // Leaves out those of older tree versions, in which something else may lie now.
  void read_refreshes() {
    const TreeState& tree = check_.state.tree;
    read("refreshes", "SELECT bucket, slot, view, content FROM refreshes",
         [&](const Statement& row) {
           const SlotAddress at{static_cast<BucketIndex>(row.integer(0)),
                                static_cast<std::uint16_t>(row.integer(1))};
           Bytes content = row.blob(3);
           if (!params_ || row.integer(2) != static_cast<std::int64_t>(tree.tree_version)) return;
           if (at.bucket < kRoot || at.bucket > bucket_count(tree.height)) return;
           if (row.integer(1) < 0 || row.integer(1) >= slots_in(at.bucket)) return;
           if (content.size() != params_->slot_size()) return;
           check_.state.refreshes[at] = std::move(content);
         });
  }

  std::uint32_t slots_in(BucketIndex bucket) const {
    return bucket == kRoot ? params_->root_slots() : std::uint32_t{params_->bucket_size};
  }

  void read_unreadable() {
    read("unreadable", "SELECT block FROM unreadable", [&](const Statement& row) {
      check_.state.unreadable.insert(static_cast<BlockId>(row.integer(0)));
    });
  }

  /// Returns whether a position is in the root buffer.
  bool is_in_root_buffer(const Position& position) const {
    return position.level == 0 && (!params_ || position.slot < params_->root_buffer_slots());
  }

  bool possible(const Position& position) const {
    const TreeState& tree = check_.state.tree;
    if (position.kind == Position::Kind::unmapped) return false;
    if (position.kind == Position::Kind::stash) return true;
    if (position.level > tree.height) return false;
    if (!params_) return true;
    if (position.level > 0) return position.slot < params_->bucket_size;
    if (!is_in_root_buffer(position)) return position.slot < params_->root_slots();
    const auto& last = check_.state.root[position.slot];
    return PathSlots(*params_, tree.tree_version, tree.written, tree.height)
               .covers_root(position.slot) &&
           (last.value_or(0) == 0 || *last == position.version);
  }

  /// If two blocks have the same slot, keeps only the one that was written last.
  void check_slots() {
    const PositionMap& positions = check_.state.positions;
    std::vector<std::optional<BlockId>> holders;
    for (BucketIndex bucket = kRoot; bucket <= bucket_count(positions.height()); ++bucket) {
      const BucketContents contents = positions.contents(bucket);
      if (contents.size() < 2) continue;
      holders.assign(std::max<unsigned>(params_->bucket_size, params_->root_slots()), {});
      for (const Resident& resident : contents) {
        auto& holder = holders[resident.slot];
        BlockId loser = resident.block;
        if (!holder) {
          holder = resident.block;
          continue;
        }
        if (positions.get(*holder).version < positions.get(loser).version)
          std::swap(*holder, loser);
        check_.findings.push_back(
            {"shared-slot", "vault.db, table positions",
             fmt::format("blocks {} and {} cannot both lie in the same place; the one that was "
                         "written last keeps it, and block {} is lost",
                         *holder, loser, loser),
             "the lost block's row is dropped"});
        check_.state.positions.set(loser, {});
        check_.bad_positions.push_back(static_cast<std::int64_t>(loser));
      }
    }
    std::sort(check_.bad_positions.begin(), check_.bad_positions.end());
  }

  void bad_position(std::int64_t block, std::string_view why) {
    check_.bad_positions.push_back(block);
    check_.findings.push_back(
        {"bad-position", "vault.db, table positions",
         fmt::format("the place of block {} is damaged: {}; it is no longer known where the block "
                     "lies",
                     block, why),
         "the row is dropped"});
  }
  void stray(std::int64_t block) {
    check_.bad_stash.push_back(block);
    check_.findings.push_back(
        {"stray-block", "vault.db, table stash",
         fmt::format("nothing refers to this copy of block {}; no file needs it", block),
         "the row is dropped"});
  }

  /// Drops rows of the stash that are not the newest content of a block.
  void drop_strays() {
    auto& stash = check_.state.stash;
    for (auto at = stash.begin(); at != stash.end();) {
      const auto next = std::next(at);
      if (check_.state.positions.get(at->first).kind != Position::Kind::stash) {
        stray(static_cast<std::int64_t>(at->first));
        stash.erase(at);
      }
      at = next;
    }
    std::sort(check_.bad_stash.begin(), check_.bad_stash.end());
  }

  /// The place of a block according to the rows of buckets.
  struct Listed {
    std::uint64_t version = 0;
    std::uint64_t bucket : 47 = kInNone;
    std::uint64_t at_leaf : 1 = 0;
    std::uint64_t slot : 16 = 0;
  };
  static constexpr BucketIndex kInNone = 0, kInTwo = (BucketIndex{1} << 47) - 1;

  const std::optional<VolumeParams>& params_;
  StateCheck check_;
  std::vector<Listed> listed_;  // by block
};

class MarkReading : StateReading {
 public:
  MarkReading(Database& database, StateCheck& check)
      : StateReading(database, check.findings, check.refused), check_(check) {}
  void all() {
    const std::uint64_t last = bucket_count(check_.state.tree.height);
    read("marks", "SELECT bucket, marks FROM marks ORDER BY bucket", [&](const Statement& row) {
      const auto bucket = static_cast<BucketIndex>(row.integer(0));
      const bool exists = (bucket > kRoot && bucket <= last) || bucket >= kStashBucket;
      if (exists && decode_marks(bucket, row.blob(1))) return;
      check_.bad_marks.push_back(row.integer(0));
      check_.findings.push_back(
          {"bad-mark", "vault.db, table marks",
           fmt::format("the marks of bucket {} are damaged: until an eviction makes new ones, a "
                       "repair cannot prove that bucket",
                       row.integer(0)),
           "the row is dropped"});
    });
  }

 private:
  StateCheck& check_;
};

void lose(StateCheck& check, BlockId block) {
  check.state.positions.set(block, {});
  check.bad_positions.push_back(static_cast<std::int64_t>(block));
  if (check.state.stash.erase(block) > 0)
    check.bad_stash.push_back(static_cast<std::int64_t>(block));
}

}  // namespace

std::int64_t most_blocks(unsigned height, const std::optional<VolumeParams>& params) {
  if (!params) return kMostBlockNumbers;
  // While its tree is still low, a volume that a vault is migrating to may hold blocks with high
  // numbers.
  constexpr std::uint64_t kSlack = 16, kFew = std::uint64_t{1} << 23;
  const std::uint64_t most = kSlack * capacity(height, params->evict_every) + kFew;
  return static_cast<std::int64_t>(std::min<std::uint64_t>(most, kMostBlockNumbers));
}

StateCheck read_state(Database& database, const std::optional<VolumeParams>& params) {
  return Reading(database, params).all();
}

void check_further(StateCheck& check, const VolumeParams& params) {
  if (check.refused) return;
  const TreeState& tree = check.state.tree;
  if (tree.tree_version != 0 && tree.tree_version != tree.last_decided.eviction + 1)
    check.findings.push_back(
        {"unusable-state",
         "vault.db, table tree",
         fmt::format("{} evictions were decided, but the last one has number {}: the servers may "
                     "refuse this vault; {}",
                     tree.tree_version, tree.last_decided.eviction, kMakeAnew),
         {}});
  std::vector<BlockId> unreadable;
  for (const auto& [block, sealed] : check.state.stash)
    if (sealed.size() != params.slot_size()) unreadable.push_back(block);
  for (const BlockId block : unreadable) {
    check.findings.push_back(
        {"bad-position", "vault.db, table stash",
         fmt::format("the copy of block {} that is kept here is {}; the block "
                     "is lost",
                     block,
                     check.state.stash[block].empty()
                         ? "empty, because it could not be read from the servers"
                         : "damaged"),
         "the row is dropped"});
    lose(check, block);
  }
  std::sort(check.bad_positions.begin(), check.bad_positions.end());
  std::sort(check.bad_stash.begin(), check.bad_stash.end());
}

void check_marks(Database& database, StateCheck& check) {
  if (!check.refused) MarkReading(database, check).all();
}

Status repair_state(Database& database, const VolumeParams& params, const StateCheck& check) {
  S3O_TRY(drop_rows(database, "positions", "block", check.bad_positions));
  S3O_TRY(drop_rows(database, "stash", "block", check.bad_stash));
  S3O_TRY(drop_rows(database, "buckets", "bucket", check.bad_buckets));
  S3O_TRY(drop_rows(database, "marks", "bucket", check.bad_marks));
  S3O_TRY(drop_rows(database, "intents", "slot", check.bad_access_records));
  S3O_ASSIGN(auto nothing,
             database.prepare("INSERT OR REPLACE INTO intents VALUES (?, ?, 0, 0, 0)"));
  for (const WriteNumber write_number : check.missing_access_records)
    S3O_TRY(nothing.bind(0, root_slot(write_number, params.evict_every))
                .bind(1, static_cast<std::int64_t>(write_number))
                .run());
  return database.execute(
      "DELETE FROM unreadable WHERE block NOT IN (SELECT block FROM positions)");
}

}  // namespace s3oram
