// Reads ring's tables, and judges each row.
#include "oramcore/schemes/ring/client/ring_check.h"

#include <algorithm>

#include "oramcore/base/format_number.h"
#include "oramcore/client/state_check.h"
#include "oramcore/client/state_reading.h"

namespace s3oram::ring {
namespace {

std::uint64_t of_sql(std::int64_t value) { return static_cast<std::uint64_t>(value); }

class Reading : StateReading {
 public:
  Reading(Database& database, const VolumeParams& volume)
      : StateReading(database, check_.findings, check_.refused), volume_(volume), params_(volume) {}

  RingCheck all() {
    read_tree();
    if (!check_.refused) read_sessions(check_.state.sessions);
    if (!check_.refused) read_buckets();
    if (!check_.refused) read_blocks();
    if (!check_.refused) read_records();
    if (!check_.refused) read_unreadable();
    if (!check_.refused) read_logged();
    return std::move(check_);
  }

 private:
  void read_tree() {
    bool found = false;
    read("ring_tree",
         "SELECT format, rewrites, height, written, evictions, synced, decided, attempt"
         " FROM ring_tree",
         [&](const Statement& row) {
           found = true;
           if (row.integer(0) != RingState::kFormat)
             return refuse(
                 "ring_tree",
                 unknown_format(database_.path(), row.integer(0), RingState::kFormat).value());
           take_tree(row);
         });
    if (!found && !check_.refused) damaged("ring_tree", "table ring_tree is empty");
  }

  void take_tree(const Statement& row) {
    RingTree& tree = check_.state.tree;
    for (int column = 1; column <= 6; ++column)
      if (row.integer(column) < 0) return damaged("ring_tree", "impossible numbers");
    const Bytes attempt = row.blob(7);
    if (row.integer(2) > kMaxHeight || attempt.size() != tree.last_decided.attempt.size())
      return damaged("ring_tree", "impossible numbers");
    tree.tree_version = of_sql(row.integer(1));
    tree.height = static_cast<unsigned>(row.integer(2));
    tree.written = of_sql(row.integer(3));
    tree.evictions = of_sql(row.integer(4));
    tree.synced = of_sql(row.integer(5));
    tree.last_decided.eviction = of_sql(row.integer(6));
    std::ranges::copy(attempt, tree.last_decided.attempt.begin());
    if (tree.height < params_.top_levels || tree.evictions > tree.tree_version ||
        tree.evictions > params_.evictions_until(tree.written) || tree.synced > tree.written)
      damaged("ring_tree", "numbers that contradict each other");
  }

  bool is_at_server(BucketIndex bucket) const {
    if (bucket < kRoot) return false;
    const unsigned level = level_of(bucket);
    return level >= params_.top_levels && level <= check_.state.tree.height;
  }

  void read_buckets() {
    read(
        "ring_buckets", "SELECT bucket, stamp, touches FROM ring_buckets",
        [&](const Statement& row) {
          const HeldBucket held{of_sql(row.integer(1)), static_cast<std::uint32_t>(row.integer(2))};
          if (is_at_server(of_sql(row.integer(0))) && held.stamp != 0 && row.integer(2) >= 0 &&
              row.integer(2) <= std::int64_t{params_.dummies()}) {
            check_.state.buckets[of_sql(row.integer(0))] = held;
            return;
          }
          check_.bad_buckets.push_back(row.integer(0));
          check_.findings.push_back({"bad-bucket", "vault.db, table ring_buckets",
                                     fmt::format("the row of bucket {} is damaged: the blocks in "
                                                 "the bucket are named below",
                                                 row.integer(0)),
                                     "the row is dropped"});
        });
  }

  void bad_block(std::int64_t block, std::string_view why) {
    check_.bad_blocks.push_back(block);
    check_.findings.push_back({"bad-position", "vault.db, table ring_blocks",
                               fmt::format("block {}: {}; its place is unknown", block, why),
                               "the row is dropped"});
  }

  void read_blocks() {
    const std::int64_t most = most_blocks(check_.state.tree.height, volume_);
    read("ring_blocks",
         "SELECT block, kind, place, leaf, version, turn FROM ring_blocks ORDER BY block",
         [&](const Statement& row) {
           const std::int64_t block = row.integer(0);
           if (block < 0 || block >= most)
             return bad_block(block, "its number is too large for this volume");
           const Place place = place_in(row);
           if (!is_possible(place)) return bad_block(block, "there is no such place");
           take_block(of_sql(block), place);
         });
    std::ranges::sort(check_.bad_blocks);
  }

  static Place place_in(const Statement& row) {
    Place place{.kind = static_cast<Place::Kind>(row.integer(1)),
                .leaf = of_sql(row.integer(3)),
                .version = of_sql(row.integer(4))};
    const std::int64_t at = row.integer(2);
    if (place.kind == Place::Kind::tree) {
      place.level = static_cast<std::uint8_t>(at >> 16);
      place.slot = static_cast<std::uint16_t>(at);
    }
    if (place.kind == Place::Kind::top) {
      place.cache_slot = static_cast<CacheSlot>(at);
      place.turn = of_sql(row.integer(5));
    }
    return place;
  }

  bool is_possible(const Place& place) const {
    if (place.leaf >> kLeafBits != 0) return false;
    switch (place.kind) {
      case Place::Kind::tree:
        return place.level >= params_.top_levels && place.level <= check_.state.tree.height &&
               place.slot < params_.bucket_size && check_.state.buckets.contains(place.bucket());
      case Place::Kind::top:
        return place.turn < check_.state.tree.written && place.cache_slot < most_cache_slots();
      case Place::Kind::lost:
        return true;
      case Place::Kind::unmapped:
        break;
    }
    return false;
  }

  /// Returns far more slots than the file ever has. A larger number is damage, and would need
  /// memory for all slots below it.
  std::uint64_t most_cache_slots() const {
    constexpr std::uint64_t kSlack = 16;
    return kSlack * cache_slots(volume_) + params_.log_slots;
  }

  /// If two blocks claim the same place, it belongs to the one written last.
  void take_block(BlockId block, const Place& place) {
    if (place.kind == Place::Kind::tree)
      settle(in_slots_, std::pair{place.bucket(), place.slot}, block, place);
    else if (place.kind == Place::Kind::top && settle(at_turns_, place.turn, block, place))
      settle(in_cache_, place.cache_slot, block, place);
    else if (place.kind == Place::Kind::lost)
      check_.state.places.set(block, place);
  }
  template <class Key>
  bool settle(std::map<Key, BlockId>& holders, const Key& key, BlockId block, const Place& place) {
    const auto [at, is_free] = holders.try_emplace(key, block);
    const BlockId holder = at->second;
    const Place held = check_.state.places.get(holder);  // unmapped: the block was already rejected
    const bool stays = !is_free && held.version >= place.version;
    if (stays || (!is_free && held.kind != Place::Kind::unmapped)) {
      const BlockId loser = stays ? block : holder;
      check_.state.places.set(loser, {});
      bad_block(static_cast<std::int64_t>(loser), "a newer block has the same place");
    }
    if (stays) return false;
    at->second = block;
    check_.state.places.set(block, place);
    return true;
  }

  /// Reads the records of accesses. Without its record, the next mount may ask for other points
  /// than the access that a crash cut short: the server then sees one more access, with no other
  /// effect.
  void read_records() {
    const RingTree& tree = check_.state.tree;
    read("ring_accesses", "SELECT turn, record FROM ring_accesses", [&](const Statement& row) {
      const auto record = decode<TurnRecord>(row.blob(1));
      const Turn turn = of_sql(row.integer(0));
      const bool fits = record && record->asks.size() <= kMaxHeight + 1 &&
                        record->leaf >> kLeafBits == 0 && turn < params_.end_turn(tree.evictions);
      if (fits) {
        check_.state.records[turn] = *record;
        return;
      }
      check_.bad_records.push_back(row.integer(0));
      check_.findings.push_back(
          {"intent", "vault.db, table ring_accesses",
           fmt::format("the record of turn {} is damaged; no data depends on it", row.integer(0)),
           "the row is dropped"});
    });
  }

  void read_unreadable() {
    read("unreadable", "SELECT block FROM unreadable", [&](const Statement& row) {
      const BlockId block = of_sql(row.integer(0));
      if (check_.state.places.get(block).kind != Place::Kind::unmapped)
        check_.state.unreadable.insert(block);
    });
  }

  /// Reads the accesses since the last sync. If a row is missing, the next mount verifies the write
  /// of that turn only if it needs it.
  void read_logged() {
    const RingTree& tree = check_.state.tree;
    read("ring_logged", "SELECT turn, access FROM ring_logged", [&](const Statement& row) {
      const Turn turn = of_sql(row.integer(0));
      if (turn >= tree.synced && turn < tree.written)
        check_.state.logged[turn] = of_sql(row.integer(1));
    });
  }

  const VolumeParams& volume_;
  const Params params_;
  RingCheck check_;
  std::map<std::pair<BucketIndex, std::uint16_t>, BlockId> in_slots_;
  std::map<CacheSlot, BlockId> in_cache_;
  std::map<Turn, BlockId> at_turns_;
};

}  // namespace

RingCheck read_ring(Database& database, const VolumeParams& params) {
  return Reading(database, params).all();
}

Status repair_ring(Database& database, const RingCheck& check) {
  S3O_TRY(drop_rows(database, "ring_blocks", "block", check.bad_blocks));
  S3O_TRY(drop_rows(database, "ring_buckets", "bucket", check.bad_buckets));
  S3O_TRY(drop_rows(database, "ring_accesses", "turn", check.bad_records));
  return database.execute(
      "DELETE FROM unreadable WHERE block NOT IN (SELECT block FROM ring_blocks)");
}

}  // namespace s3oram::ring
