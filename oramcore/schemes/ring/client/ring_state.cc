// The tables of ring in vault.db.
#include "oramcore/schemes/ring/client/ring_state.h"

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/db/known_format.h"
#include "oramcore/protocol/store_size.h"
#include "oramcore/schemes/ring/client/ring_check.h"

namespace s3oram::ring {
namespace {

std::int64_t as_sql(std::uint64_t value) { return static_cast<std::int64_t>(value); }

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
    "CREATE TABLE ring_logged (turn INTEGER PRIMARY KEY, access INTEGER NOT NULL);"
    "CREATE TABLE unreadable (block INTEGER PRIMARY KEY);"
    "CREATE TABLE sessions (epoch INTEGER PRIMARY KEY, nonce BLOB NOT NULL);";

/// Returns the place in its stored form: the level and slot for a block in the tree, the slot in
/// the cache for one in the top.
std::int64_t packed_place(const Place& place) {
  return place.kind == Place::Kind::top ? place.cache_slot : place.level << 16 | place.slot;
}

}  // namespace

void RingChanges::merge_older(RingChanges older) {
  places.merge(older.places);
  buckets.merge(older.buckets);
  records.merge(older.records);
  unreadable.merge(older.unreadable);
  logged.merge(older.logged);
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
  S3O_TRY(prepare(put_logged_, "INSERT OR REPLACE INTO ring_logged VALUES (?, ?)"));
  S3O_TRY(prepare(erase_logged_, "DELETE FROM ring_logged WHERE turn = ?"));
  return prepare(put_tree_,
                 "UPDATE ring_tree SET rewrites = ?, height = ?, written = ?, evictions = ?,"
                 " synced = ?, decided = ?, attempt = ?");
}

Result<RingState::Loaded> RingState::load(const VolumeParams& params, Findings* findings) {
  RingCheck check = read_ring(database_, params);
  if (check.refused) return fail(*check.refused);
  rewrites_ = check.state.tree.tree_version;
  if (findings) *findings = std::move(check.findings);
  return std::move(check.state);
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
    S3O_TRY(row.bind(0, as_sql(epoch)).run());
    return owner_ ? keep_owner(database_, *owner_) : Status{};
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
  TurnRecord(*record).fields(writer);
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
  for (const auto& [turn, access] : changes.logged)
    S3O_TRY(access ? put_logged_.bind(0, as_sql(turn)).bind(1, as_sql(*access)).run()
                   : erase_logged_.bind(0, as_sql(turn)).run());
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
    for (const BlockId block : content.unreadable) all.unreadable[block] = true;
    for (const Session& session : content.sessions) S3O_TRY(insert_session(session));
    return put(content.tree, all);
  });
}

Status RingState::commit(const RingTree& tree, const RingChanges& changes,
                         const std::function<Status(Database&)>& with) {
  database_.restore_ballast();
  const bool has_record = std::ranges::any_of(
      changes.records, [](const auto& change) { return change.second.has_value(); });
  const auto what = tree.tree_version != rewrites_ ? "decide" : has_record ? "intent" : "commit";
  Status done = database_.transact(what, [&]() -> Status {
    S3O_TRY(put(tree, changes));
    return with ? with(database_) : Status{};
  });
  if (done) rewrites_ = tree.tree_version;
  return done;
}

}  // namespace s3oram::ring
