// The tables of ring in vault.db.
#include "oramcore/schemes/ring/client/ring_state.h"

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/db/known_format.h"
#include "oramcore/protocol/store_size.h"

namespace s3oram::ring {
namespace {

std::int64_t as_sql(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t of_sql(std::int64_t value) { return static_cast<std::uint64_t>(value); }

constexpr auto kTables =
    "CREATE TABLE ring_tree (one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL,"
    " rewrites INTEGER NOT NULL, height INTEGER NOT NULL, written INTEGER NOT NULL,"
    " evictions INTEGER NOT NULL, synced INTEGER NOT NULL, decided INTEGER NOT NULL,"
    " attempt BLOB NOT NULL);"
    "CREATE TABLE ring_blocks (block INTEGER PRIMARY KEY, kind INTEGER NOT NULL,"
    " place INTEGER NOT NULL, leaf INTEGER NOT NULL, version INTEGER NOT NULL,"
    " turn INTEGER NOT NULL);"
    "CREATE TABLE ring_buckets (bucket INTEGER PRIMARY KEY, stamp INTEGER NOT NULL,"
    " touches INTEGER NOT NULL);"
    "CREATE TABLE ring_accesses (turn INTEGER PRIMARY KEY, record BLOB NOT NULL);"
    "CREATE TABLE unreadable (block INTEGER PRIMARY KEY);"
    "CREATE TABLE sessions (epoch INTEGER PRIMARY KEY, nonce BLOB NOT NULL);";

struct RecordBytes {
  TurnRecord record;
  template <class A>
  void fields(A& a) {
    a(record.block, record.leaf, record.asks);
  }
};

/// In the tree, its level and slot; in the top, its slot in the cache.
std::int64_t packed_place(const Place& place) {
  return place.kind == Place::Kind::top ? place.cache_slot : place.level << 16 | place.slot;
}

/// Runs `each(row)` for every row.
template <class Each>
Status for_rows(Database& database, std::string_view sql, Each each) {
  S3O_ASSIGN(auto rows, database.prepare(sql));
  for (;;) {
    S3O_ASSIGN(const bool more, rows.step());
    if (!more) return {};
    S3O_TRY(each(rows));
  }
}

tl::unexpected<Error> impossible(const Database& database, std::string_view what) {
  return fail(Errc::damaged_vault, "{}: a row says what cannot be: {}", database.path(), what);
}

}  // namespace

void RingChanges::merge_older(RingChanges older) {
  places.merge(older.places);
  buckets.merge(older.buckets);
  records.merge(older.records);
  unreadable.merge(older.unreadable);
}

Status RingState::create(const std::filesystem::path& file, unsigned first_height, Disk& disk) {
  RingState state;
  S3O_ASSIGN(auto database, Database::open(file.string(), Database::Mode::create, disk));
  state.database_ = std::move(database);
  return state.database_.transact("create", [&]() -> Status {
    S3O_ASSIGN(const bool there, state.database_.has_table("ring_tree"));
    if (there) return fail(Errc::exists, "{} exists already", file.string());
    S3O_TRY(state.database_.execute(kTables));
    S3O_TRY(state.database_.execute(
        fmt::format("INSERT INTO ring_tree VALUES (1, {}, 0, {}, 0, 0, 0, 0, zeroblob(16));",
                    kFormat, first_height)));
    return state.insert_session({});
  });
}

Result<RingState> RingState::open(const std::filesystem::path& file, Disk& disk) {
  RingState state;
  S3O_ASSIGN(auto database, Database::open(file.string(), Database::Mode::read_write, disk));
  state.database_ = std::move(database);
  S3O_TRY(require_format(state.database_, "SELECT format FROM ring_tree", kFormat));
  S3O_TRY(state.database_.keep_ballast(kClientBallast));
  S3O_TRY(state.prepare_statements());
  return state;
}

Status RingState::prepare_statements() {
  const auto prepare = [&](Statement& statement, std::string_view sql) -> Status {
    S3O_ASSIGN(auto prepared, database_.prepare(sql));
    statement = std::move(prepared);
    return {};
  };
  S3O_TRY(prepare(put_block_, "INSERT OR REPLACE INTO ring_blocks VALUES (?, ?, ?, ?, ?, ?)"));
  S3O_TRY(prepare(erase_block_, "DELETE FROM ring_blocks WHERE block = ?"));
  S3O_TRY(prepare(put_bucket_, "INSERT OR REPLACE INTO ring_buckets VALUES (?, ?, ?)"));
  S3O_TRY(prepare(put_record_, "INSERT OR REPLACE INTO ring_accesses VALUES (?, ?)"));
  S3O_TRY(prepare(erase_record_, "DELETE FROM ring_accesses WHERE turn = ?"));
  S3O_TRY(prepare(put_unreadable_, "INSERT OR REPLACE INTO unreadable VALUES (?)"));
  S3O_TRY(prepare(erase_unreadable_, "DELETE FROM unreadable WHERE block = ?"));
  return prepare(put_tree_,
                 "UPDATE ring_tree SET rewrites = ?, height = ?, written = ?, evictions = ?,"
                 " synced = ?, decided = ?, attempt = ?");
}

// ---- loading

namespace {

Place place_in(Statement& row) {
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

bool is_possible(const Place& place, const Params& params, const RingState::Loaded& loaded) {
  if (place.leaf >> kLeafBits != 0) return false;
  switch (place.kind) {
    case Place::Kind::tree:
      return place.level >= params.top_levels && place.level <= loaded.tree.height &&
             place.slot < params.bucket_size;
    case Place::Kind::top:
      return !loaded.places.top().contains(place.turn);
    case Place::Kind::lost:
      return true;
    case Place::Kind::unmapped:
      break;
  }
  return false;
}

}  // namespace

Result<RingState::Loaded> RingState::load(const Params& params) {
  Loaded loaded;
  S3O_TRY(load_tree(loaded));
  S3O_TRY(load_blocks(params, loaded));
  S3O_TRY(load_rest(params, loaded));
  if (loaded.sessions.empty()) return impossible(database_, "there is no session");
  rewrites_ = loaded.tree.tree_version;
  return loaded;
}

Status RingState::load_tree(Loaded& to) {
  bool there = false;
  S3O_TRY(for_rows(database_,
                   "SELECT rewrites, height, written, evictions, synced, decided, attempt"
                   " FROM ring_tree",
                   [&](Statement& row) -> Status {
                     there = true;
                     to.tree.tree_version = of_sql(row.integer(0));
                     to.tree.height = static_cast<unsigned>(row.integer(1));
                     to.tree.written = of_sql(row.integer(2));
                     to.tree.evictions = of_sql(row.integer(3));
                     to.tree.synced = of_sql(row.integer(4));
                     to.tree.last_decided.eviction = of_sql(row.integer(5));
                     const Bytes attempt = row.blob(6);
                     if (attempt.size() != to.tree.last_decided.attempt.size())
                       return impossible(database_, "an attempt's number");
                     std::ranges::copy(attempt, to.tree.last_decided.attempt.begin());
                     return {};
                   }));
  if (!there || to.tree.height > kMaxHeight) return impossible(database_, "the tree's numbers");
  return {};
}

Status RingState::load_blocks(const Params& params, Loaded& to) {
  return for_rows(database_, "SELECT block, kind, place, leaf, version, turn FROM ring_blocks",
                  [&](Statement& row) -> Status {
                    const Place place = place_in(row);
                    if (!is_possible(place, params, to))
                      return impossible(database_, "the place of a block");
                    to.places.set(of_sql(row.integer(0)), place);
                    return {};
                  });
}

Status RingState::load_rest(const Params& params, Loaded& to) {
  S3O_TRY(for_rows(
      database_, "SELECT bucket, stamp, touches FROM ring_buckets", [&](Statement& row) -> Status {
        const HeldBucket held{of_sql(row.integer(1)), static_cast<std::uint32_t>(row.integer(2))};
        if (held.touches > params.dummies())
          return impossible(database_, "the touches of a bucket");
        to.buckets[of_sql(row.integer(0))] = held;
        return {};
      }));
  S3O_TRY(
      for_rows(database_, "SELECT turn, record FROM ring_accesses", [&](Statement& row) -> Status {
        const auto record = decode<RecordBytes>(row.blob(1));
        if (!record) return impossible(database_, "the record of an access");
        to.records[of_sql(row.integer(0))] = record->record;
        return {};
      }));
  S3O_TRY(for_rows(database_, "SELECT block FROM unreadable", [&](Statement& row) -> Status {
    to.unreadable.insert(of_sql(row.integer(0)));
    return {};
  }));
  return for_rows(database_, "SELECT epoch, nonce FROM sessions ORDER BY epoch",
                  [&](Statement& row) -> Status {
                    Session session{.epoch = of_sql(row.integer(0))};
                    const Bytes nonce = row.blob(1);
                    if (nonce.size() != session.nonce.size())
                      return impossible(database_, "a session");
                    std::ranges::copy(nonce, session.nonce.begin());
                    to.sessions.push_back(session);
                    return {};
                  });
}

// ---- changes

Status RingState::insert_session(const Session& session) {
  S3O_ASSIGN(auto row, database_.prepare("INSERT OR REPLACE INTO sessions VALUES (?, ?)"));
  return row.bind(0, as_sql(session.epoch)).bind(1, ByteSpan(session.nonce)).run();
}

Status RingState::add_session(const Session& session) {
  return database_.transact("session", [&] { return insert_session(session); });
}

Status RingState::forget_sessions_before(std::uint64_t epoch) {
  return database_.transact("forget-sessions", [&]() -> Status {
    S3O_ASSIGN(auto row, database_.prepare("DELETE FROM sessions WHERE epoch < ?"));
    return row.bind(0, as_sql(epoch)).run();
  });
}

Status RingState::put_block(BlockId block, const Place& place) {
  if (place.kind == Place::Kind::unmapped) return erase_block_.bind(0, as_sql(block)).run();
  return put_block_.bind(0, as_sql(block))
      .bind(1, static_cast<std::int64_t>(place.kind))
      .bind(2, packed_place(place))
      .bind(3, as_sql(place.leaf))
      .bind(4, as_sql(place.version))
      .bind(5, as_sql(place.turn))
      .run();
}

Status RingState::put_record(Turn turn, const std::optional<TurnRecord>& record) {
  if (!record) return erase_record_.bind(0, as_sql(turn)).run();
  Writer writer;
  RecordBytes{*record}.fields(writer);
  return put_record_.bind(0, as_sql(turn)).bind(1, ByteSpan(writer.take())).run();
}

Status RingState::put(const RingTree& tree, const RingChanges& changes) {
  for (const auto& [block, place] : changes.places) S3O_TRY(put_block(block, place));
  for (const auto& [bucket, held] : changes.buckets)
    S3O_TRY(put_bucket_.bind(0, as_sql(bucket))
                .bind(1, as_sql(held.stamp))
                .bind(2, std::int64_t{held.touches})
                .run());
  for (const auto& [turn, record] : changes.records) S3O_TRY(put_record(turn, record));
  for (const auto& [block, is_so] : changes.unreadable)
    S3O_TRY((is_so ? put_unreadable_ : erase_unreadable_).bind(0, as_sql(block)).run());
  return put_tree_.bind(0, as_sql(tree.tree_version))
      .bind(1, std::int64_t{tree.height})
      .bind(2, as_sql(tree.written))
      .bind(3, as_sql(tree.evictions))
      .bind(4, as_sql(tree.synced))
      .bind(5, as_sql(tree.last_decided.eviction))
      .bind(6, ByteSpan(tree.last_decided.attempt))
      .run();
}

Status RingState::put_all(const Loaded& content) {
  return database_.transact("rebuild", [&]() -> Status {
    RingChanges all;
    for (const BlockId block : content.places.blocks())
      all.places[block] = content.places.get(block);
    all.buckets = content.buckets;
    for (const Session& session : content.sessions) S3O_TRY(insert_session(session));
    return put(content.tree, all);
  });
}

Status RingState::commit(const RingTree& tree, const RingChanges& changes,
                         const std::function<Status(Database&)>& with) {
  database_.restore_ballast();
  const bool intends = std::ranges::any_of(
      changes.records, [](const auto& change) { return change.second.has_value(); });
  const auto what = tree.tree_version != rewrites_ ? "decide" : intends ? "intent" : "commit";
  Status done = database_.transact(what, [&]() -> Status {
    S3O_TRY(put(tree, changes));
    return with ? with(database_) : Status{};
  });
  if (done) rewrites_ = tree.tree_version;
  return done;
}

}  // namespace s3oram::ring
