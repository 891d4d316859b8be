// Keeps the client's state in tables of vault.db.
#include "oramcore/client/client_state.h"

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/client/state_check.h"
#include "oramcore/db/known_format.h"
#include "oramcore/protocol/store_size.h"

namespace s3oram {
namespace {

constexpr auto kCreateBuckets =
    "CREATE TABLE IF NOT EXISTS buckets (bucket INTEGER PRIMARY KEY, blocks BLOB NOT NULL);";
constexpr auto kCreateMissing =
    "CREATE TABLE IF NOT EXISTS intents (slot INTEGER PRIMARY KEY, turn INTEGER NOT NULL,"
    " block INTEGER NOT NULL, leaf INTEGER NOT NULL, access INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS unreadable (block INTEGER PRIMARY KEY);"
    "CREATE TABLE IF NOT EXISTS maintained (one INTEGER PRIMARY KEY CHECK (one = 1),"
    " block INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS left_out (server INTEGER PRIMARY KEY);"
    "CREATE TABLE IF NOT EXISTS rewritten (bucket INTEGER PRIMARY KEY);"
    "CREATE TABLE IF NOT EXISTS repairs (server INTEGER, bucket INTEGER, slot INTEGER,"
    " PRIMARY KEY (server, bucket, slot));"
    "CREATE TABLE IF NOT EXISTS refreshes (bucket INTEGER, slot INTEGER, view INTEGER NOT NULL,"
    " content BLOB NOT NULL, PRIMARY KEY (bucket, slot));";

std::int64_t as_sql(std::uint64_t value) { return static_cast<std::int64_t>(value); }

}  // namespace

std::size_t StateChanges::places() const {
  std::size_t places = positions.size();
  for (const auto& [bucket, row] : buckets) places += row.blocks.size();
  return places;
}

void StateChanges::merge_older(StateChanges older) {
  positions.merge(older.positions);
  buckets.merge(older.buckets);
  stash.merge(older.stash);
  access_records.merge(older.access_records);
  unreadable.merge(older.unreadable);
  for (const BucketIndex bucket : unmarked) older.marks.erase(bucket);
  unmarked.merge(older.unmarked);
  marks.merge(older.marks);
  refreshes.merge(older.refreshes);
  if (!maintained) maintained = older.maintained;
  if (!left_out) left_out = older.left_out;
  if (!rewritten) rewritten = older.rewritten;
  if (!repairs) repairs = older.repairs;
}

Status ClientState::require_empty() {
  S3O_ASSIGN(auto tables, database_.prepare("SELECT 1 FROM sqlite_master"));
  S3O_ASSIGN(auto found, tables.step());
  if (found) return fail(Errc::exists, "{} exists already", database_.path());
  return {};
}

Status ClientState::check_free(const std::filesystem::path& file, Disk& disk) {
  S3O_ASSIGN(auto database, Database::open(file.string(), Database::Mode::create, disk));
  ClientState state;
  state.database_ = std::move(database);
  return state.require_empty();
}

Status ClientState::create(const std::filesystem::path& file, unsigned first_height, Disk& disk) {
  Loaded empty;
  empty.tree.height = first_height;
  empty.positions.reset(first_height);
  empty.sessions.emplace_back();
  return create(file, empty, 1, disk);
}

Status ClientState::create(const std::filesystem::path& file, const Loaded& content,
                           unsigned evict_every, Disk& disk) {
  ClientState state;
  S3O_ASSIGN(auto database, Database::open(file.string(), Database::Mode::create, disk));
  state.database_ = std::move(database);
  return state.database_.transact("create", [&]() -> Status {
    S3O_TRY(state.require_empty());
    S3O_TRY(state.database_.execute(
        "CREATE TABLE tree (one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL,"
        " view INTEGER NOT NULL, height INTEGER NOT NULL, written INTEGER NOT NULL,"
        " eviction INTEGER NOT NULL, attempt BLOB NOT NULL);"
        "CREATE TABLE positions (block INTEGER PRIMARY KEY, position INTEGER NOT NULL,"
        " version INTEGER NOT NULL);"
        "CREATE TABLE stash (block INTEGER PRIMARY KEY, sealed BLOB NOT NULL);"
        "CREATE TABLE sessions (epoch INTEGER PRIMARY KEY, nonce BLOB NOT NULL);"
        "INSERT INTO tree VALUES (1, " +
        std::to_string(kFormat) + ", 0, 1, 0, 0, zeroblob(16));"));
    S3O_TRY(state.database_.execute(kCreateBuckets));
    S3O_TRY(make_missing_tables(state.database_));
    S3O_TRY(state.prepare_statements());
    return state.put_all(content, evict_every);
  });
}

Status ClientState::put_all(const Loaded& content, unsigned evict_every) {
  for (const Session& session : content.sessions) S3O_TRY(insert_session(session));
  StateChanges few;
  for (const AccessRecord& access_record : content.access_records)
    few.access_records[root_slot(access_record.write_number, evict_every)] = access_record;
  few.left_out = content.left_out;
  few.rewritten = content.rewritten;
  S3O_TRY(put(content.tree, few));
  for (const BlockId block : content.positions.blocks()) {
    const Position position = content.positions.get(block);
    S3O_TRY(
        put_position(block, {PositionMap::pack(position, content.tree.height), position.version}));
  }
  return put_buckets(content.positions);
}

Status ClientState::put_buckets(const PositionMap& positions) {
  for (BucketIndex bucket = kRoot; bucket <= bucket_count(positions.height()); ++bucket)
    S3O_TRY(put_bucket(bucket, positions.row(bucket)));
  return {};
}

Status ClientState::put_bucket(BucketIndex bucket, const BucketRow& row) {
  return row.blocks.empty()
             ? erase_bucket_.bind(0, as_sql(bucket)).run()
             : put_bucket_.bind(0, as_sql(bucket)).bind(1, ByteSpan(encode_row(bucket, row))).run();
}

Status ClientState::make_missing_tables(Database& database) {
  S3O_TRY(database.execute(kCreateMissing));
  return database.execute(MarkTable::kCreate);
}

Result<ClientState> ClientState::open(const std::filesystem::path& file, Disk& disk) {
  ClientState state;
  S3O_ASSIGN(auto database, Database::open(file.string(), Database::Mode::read_write, disk));
  state.database_ = std::move(database);
  S3O_TRY(require_format(state.database_, "SELECT format FROM tree", kFormat, "", kOldestFormat));
  S3O_TRY(state.database_.keep_ballast(kClientBallast));
  const auto add_tables = [&]() -> Status {
    S3O_TRY(make_missing_tables(state.database_));
    S3O_ASSIGN(auto without, state.is_without_buckets());
    return without ? state.database_.execute(kCreateBuckets) : Status();
  };
  S3O_TRY(state.database_.transact("tables", add_tables));
  S3O_TRY(state.prepare_statements());
  return state;
}

/// Returns whether the rows have a format without buckets. If the row of the format is missing,
/// returns false, and load() reports the error.
Result<bool> ClientState::is_without_buckets() {
  S3O_ASSIGN(auto row, database_.prepare("SELECT format FROM tree"));
  S3O_ASSIGN(auto found, row.step());
  return found && row.integer(0) < kFirstWithBuckets;
}

Status ClientState::raise_format(std::int64_t format, const PositionMap& positions) {
  return database_.transact("raise", [&]() -> Status {
    if (format < kFirstListed) S3O_TRY(put_buckets(positions));
    return database_.execute(fmt::format("UPDATE tree SET format = {}", kFormat));
  });
}

Status ClientState::forget_marks() {
  S3O_ASSIGN(auto any, database_.prepare("SELECT 1 FROM marks LIMIT 1"));
  S3O_ASSIGN(const auto found, any.step());
  any.reset();
  if (!found) return {};
  return database_.transact("forget-marks", [&] { return database_.execute("DELETE FROM marks"); });
}

Status ClientState::prepare_statements() {
  const auto prepare = [&](Statement& statement, std::string_view sql) -> Status {
    S3O_ASSIGN(auto prepared, database_.prepare(sql));
    statement = std::move(prepared);
    return {};
  };
  S3O_TRY(prepare(put_position_, "INSERT OR REPLACE INTO positions VALUES (?, ?, ?)"));
  S3O_TRY(prepare(erase_position_, "DELETE FROM positions WHERE block = ?"));
  S3O_TRY(prepare(put_bucket_, "INSERT OR REPLACE INTO buckets VALUES (?, ?)"));
  S3O_TRY(prepare(erase_bucket_, "DELETE FROM buckets WHERE bucket = ?"));
  S3O_TRY(prepare(put_stash_, "INSERT OR REPLACE INTO stash VALUES (?, ?)"));
  S3O_TRY(prepare(erase_stash_, "DELETE FROM stash WHERE block = ?"));
  S3O_TRY(prepare(put_access_record_, "INSERT OR REPLACE INTO intents VALUES (?, ?, ?, ?, ?)"));
  S3O_TRY(prepare(put_unreadable_, "INSERT OR REPLACE INTO unreadable VALUES (?)"));
  S3O_TRY(prepare(erase_unreadable_, "DELETE FROM unreadable WHERE block = ?"));
  S3O_TRY(marks_.open(database_));
  S3O_TRY(prepare(put_maintained_, "INSERT OR REPLACE INTO maintained VALUES (1, ?)"));
  return prepare(put_tree_,
                 "UPDATE tree SET view = ?, height = ?, written = ?, eviction = ?, attempt = ?");
}

Result<ClientState::Loaded> ClientState::load(const std::optional<VolumeParams>& params,
                                              Findings* findings) {
  StateCheck check = read_state(database_, params);
  if (check.refused && check.refused->code == Errc::damaged_vault)
    return fail(Errc::damaged_vault, "{}", check.refused->message);
  if (check.refused) return fail(*check.refused);
  if (check.format < kFormat) S3O_TRY(raise_format(check.format, check.state.positions));
  tree_version_ = check.state.tree.tree_version;
  if (findings) *findings = std::move(check.findings);
  return std::move(check.state);
}

Status ClientState::insert_session(const Session& session) {
  S3O_ASSIGN(auto row, database_.prepare("INSERT INTO sessions VALUES (?, ?)"));
  return row.bind(0, as_sql(session.epoch)).bind(1, ByteSpan(session.nonce)).run();
}

Status ClientState::add_session(const Session& session) {
  return database_.transact("session", [&] { return insert_session(session); });
}

Status ClientState::forget_sessions_before(std::uint64_t epoch) {
  return database_.transact("forget-sessions", [&]() -> Status {
    S3O_ASSIGN(auto row, database_.prepare("DELETE FROM sessions WHERE epoch < ?"));
    S3O_TRY(row.bind(0, as_sql(epoch)).run());
    return owner_ ? keep_owner(database_, *owner_) : Status{};
  });
}

Status ClientState::put_position(BlockId block, const StateChanges::Row& row) {
  return put_position_.bind(0, as_sql(block))
      .bind(1, as_sql(row.packed))
      .bind(2, as_sql(row.version))
      .run();
}

Status ClientState::put(const TreeState& tree, const StateChanges& changes) {
  for (const auto& [block, row] : changes.positions)
    S3O_TRY(row ? put_position(block, *row) : erase_position_.bind(0, as_sql(block)).run());
  for (const auto& [bucket, row] : changes.buckets) S3O_TRY(put_bucket(bucket, row));
  for (const auto& [block, sealed] : changes.stash)
    S3O_TRY(sealed ? put_stash_.bind(0, as_sql(block)).bind(1, ByteSpan(*sealed)).run()
                   : erase_stash_.bind(0, as_sql(block)).run());
  for (const auto& [slot, access_record] : changes.access_records)
    S3O_TRY(put_access_record_.bind(0, slot)
                .bind(1, as_sql(access_record.write_number))
                .bind(2, as_sql(access_record.block))
                .bind(3, as_sql(access_record.leaf))
                .bind(4, as_sql(access_record.access))
                .run());
  for (const auto& [block, is_so] : changes.unreadable)
    S3O_TRY((is_so ? put_unreadable_ : erase_unreadable_).bind(0, as_sql(block)).run());
  for (const BucketIndex bucket : changes.unmarked) S3O_TRY(marks_.erase(bucket, tree.height));
  for (const auto& [bucket, row] : changes.marks) S3O_TRY(marks_.put(bucket, row));
  if (changes.maintained) S3O_TRY(put_maintained_.bind(0, as_sql(*changes.maintained)).run());
  if (changes.left_out) S3O_TRY(put_left_out(*changes.left_out));
  if (changes.rewritten) S3O_TRY(put_rewritten(*changes.rewritten));
  if (changes.repairs) S3O_TRY(put_repairs(*changes.repairs));
  if (!changes.refreshes.empty()) S3O_TRY(put_refreshes(tree, changes));
  return put_tree_.bind(0, as_sql(tree.tree_version))
      .bind(1, tree.height)
      .bind(2, as_sql(tree.written))
      .bind(3, as_sql(tree.last_decided.eviction))
      .bind(4, ByteSpan(tree.last_decided.attempt))
      .run();
}

Status ClientState::put_left_out(const std::set<Party>& servers) {
  S3O_TRY(database_.execute("DELETE FROM left_out"));
  S3O_ASSIGN(auto row, database_.prepare("INSERT INTO left_out VALUES (?)"));
  for (const Party server : servers) S3O_TRY(row.bind(0, server).run());
  return {};
}

Status ClientState::put_rewritten(const std::set<BucketIndex>& buckets) {
  S3O_TRY(database_.execute("DELETE FROM rewritten"));
  S3O_ASSIGN(auto row, database_.prepare("INSERT INTO rewritten VALUES (?)"));
  for (const BucketIndex bucket : buckets) S3O_TRY(row.bind(0, as_sql(bucket)).run());
  return {};
}

Status ClientState::put_repairs(const UnfinishedRepairs& repairs) {
  S3O_TRY(database_.execute("DELETE FROM repairs"));
  S3O_ASSIGN(auto row, database_.prepare("INSERT INTO repairs VALUES (?, ?, ?)"));
  const auto put_row = [&](Party server, SlotAddress at) {
    return row.bind(0, server).bind(1, as_sql(at.bucket)).bind(2, at.slot).run();
  };
  for (const Party server : repairs.servers) S3O_TRY(put_row(server, {kNoBucket, 0}));
  for (const auto& [at, servers] : repairs.unproven)
    for (const Party server : servers) S3O_TRY(put_row(server, at));
  return {};
}

Status ClientState::put_refreshes(const TreeState& tree, const StateChanges& changes) {
  S3O_ASSIGN(auto row, database_.prepare("INSERT OR REPLACE INTO refreshes VALUES (?, ?, ?, ?)"));
  S3O_ASSIGN(auto ended, database_.prepare("DELETE FROM refreshes WHERE bucket = ? AND slot = ?"));
  for (const auto& [at, content] : changes.refreshes) {
    Statement& statement = content ? row : ended;
    statement.bind(0, as_sql(at.bucket)).bind(1, at.slot);
    if (content) statement.bind(2, as_sql(tree.tree_version)).bind(3, ByteSpan(*content));
    S3O_TRY(statement.run());
  }
  return {};
}

Status ClientState::commit(const TreeState& tree, const StateChanges& changes,
                           const std::function<Status(Database&)>& with) {
  const auto fill = [&]() -> Status {
    S3O_TRY(put(tree, changes));
    return with && rule_holds(Rule::one_transaction) ? with(database_) : Status{};
  };
  database_.restore_ballast();
  const bool has_record = std::any_of(changes.access_records.begin(), changes.access_records.end(),
                                      [](const auto& change) { return change.second.access == 0; });
  const auto what = tree.tree_version != tree_version_ ? "decide"
                    : has_record                       ? "intent"
                                                       : "commit";
  S3O_TRY(database_.transact(what, fill));
  if (with && !rule_holds(Rule::one_transaction))
    S3O_TRY(database_.transact("participant", [&] { return with(database_); }));
  tree_version_ = tree.tree_version;
  return {};
}

}  // namespace s3oram
