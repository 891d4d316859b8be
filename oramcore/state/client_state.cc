#include "oramcore/state/client_state.h"

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/db/known_format.h"
#include "oramcore/state/check.h"

namespace s3oram {
namespace {

constexpr std::uint64_t kBallast = 8 << 20;

constexpr auto kCreateIntents =
    "CREATE TABLE IF NOT EXISTS intents (slot INTEGER PRIMARY KEY, turn INTEGER NOT NULL,"
    " block INTEGER NOT NULL, leaf INTEGER NOT NULL, access INTEGER NOT NULL);";

std::int64_t as_sql(std::uint64_t value) { return static_cast<std::int64_t>(value); }

}  // namespace

void StateChanges::merge_older(StateChanges older) {
  positions.merge(older.positions);
  stash.merge(older.stash);
  intents.merge(older.intents);
}

Status ClientState::create(const std::filesystem::path& file, unsigned first_height, Disk& disk) {
  ClientState state;
  auto database = Database::open(file.string(), Database::Mode::create, disk);
  if (!database) return fail(database.error());
  state.database_ = std::move(*database);
  return state.database_.transact("create", [&]() -> Status {
    auto tables = state.database_.prepare("SELECT 1 FROM sqlite_master");
    if (!tables) return fail(tables.error());
    auto found = tables->step();
    if (!found) return fail(found.error());
    if (*found) return fail(Errc::exists, "{} exists already", file.string());
    return state.database_.execute(
        "CREATE TABLE tree (one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL,"
        " view INTEGER NOT NULL, height INTEGER NOT NULL, written INTEGER NOT NULL,"
        " eviction INTEGER NOT NULL, attempt BLOB NOT NULL);"
        "CREATE TABLE positions (block INTEGER PRIMARY KEY, position INTEGER NOT NULL,"
        " version INTEGER NOT NULL);"
        "CREATE TABLE stash (block INTEGER PRIMARY KEY, sealed BLOB NOT NULL);"
        "CREATE TABLE sessions (epoch INTEGER PRIMARY KEY, nonce BLOB NOT NULL);"
        "INSERT INTO tree VALUES (1, " +
        std::to_string(kFormat) + ", 0, " + std::to_string(first_height) +
        ", 0, 0, zeroblob(16));"
        "INSERT INTO sessions VALUES (0, zeroblob(16));");
  });
}

Status ClientState::make_missing_tables(Database& database) {
  return database.execute(kCreateIntents);
}

Result<ClientState> ClientState::open(const std::filesystem::path& file, Disk& disk) {
  ClientState state;
  auto database = Database::open(file.string(), Database::Mode::read_write, disk);
  if (!database) return fail(database.error());
  state.database_ = std::move(*database);
  S3O_TRY(require_format(state.database_, "SELECT format FROM tree", kFormat));
  S3O_TRY(state.database_.keep_ballast(kBallast));
  // A vault made before intents were kept has none.
  S3O_TRY(state.database_.transact("tables", [&] { return make_missing_tables(state.database_); }));
  const auto prepare = [&](Statement& statement, std::string_view sql) -> Status {
    auto prepared = state.database_.prepare(sql);
    if (!prepared) return fail(prepared.error());
    statement = std::move(*prepared);
    return {};
  };
  S3O_TRY(prepare(state.put_position_, "INSERT OR REPLACE INTO positions VALUES (?, ?, ?)"));
  S3O_TRY(prepare(state.erase_position_, "DELETE FROM positions WHERE block = ?"));
  S3O_TRY(prepare(state.put_stash_, "INSERT OR REPLACE INTO stash VALUES (?, ?)"));
  S3O_TRY(prepare(state.erase_stash_, "DELETE FROM stash WHERE block = ?"));
  S3O_TRY(prepare(state.put_intent_, "INSERT OR REPLACE INTO intents VALUES (?, ?, ?, ?, ?)"));
  S3O_TRY(prepare(state.put_tree_,
                  "UPDATE tree SET view = ?, height = ?, written = ?, eviction = ?, attempt = ?"));
  return state;
}

Result<ClientState::Loaded> ClientState::load(const std::optional<VolumeParams>& params,
                                              Findings* findings) {
  StateCheck check = read_state(database_, params);
  if (check.refused && check.refused->code == Errc::damaged_vault)
    return fail(Errc::damaged_vault, "{} (see: s3oramfs fsck)", check.refused->message);
  if (check.refused) return fail(*check.refused);
  view_ = check.state.tree.view;
  if (findings) *findings = std::move(check.findings);
  return std::move(check.state);
}

Status ClientState::add_session(const Session& session) {
  return database_.transact("session", [&]() -> Status {
    auto row = database_.prepare("INSERT INTO sessions VALUES (?, ?)");
    if (!row) return fail(row.error());
    return row->bind(0, as_sql(session.epoch)).bind(1, View(session.nonce)).run();
  });
}

Status ClientState::forget_sessions_before(std::uint64_t epoch) {
  return database_.transact("forget-sessions", [&]() -> Status {
    auto row = database_.prepare("DELETE FROM sessions WHERE epoch < ?");
    if (!row) return fail(row.error());
    return row->bind(0, as_sql(epoch)).run();
  });
}

Status ClientState::commit(const TreeState& tree, const StateChanges& changes,
                           const std::function<Status(Database&)>& with) {
  const auto fill = [&]() -> Status {
    for (const auto& [block, row] : changes.positions)
      S3O_TRY(row ? put_position_.bind(0, as_sql(block))
                        .bind(1, as_sql(row->packed))
                        .bind(2, as_sql(row->version))
                        .run()
                  : erase_position_.bind(0, as_sql(block)).run());
    for (const auto& [block, sealed] : changes.stash)
      S3O_TRY(sealed ? put_stash_.bind(0, as_sql(block)).bind(1, View(*sealed)).run()
                     : erase_stash_.bind(0, as_sql(block)).run());
    for (const auto& [slot, intent] : changes.intents)
      S3O_TRY(put_intent_.bind(0, slot)
                  .bind(1, as_sql(intent.turn))
                  .bind(2, as_sql(intent.block))
                  .bind(3, as_sql(intent.leaf))
                  .bind(4, as_sql(intent.access))
                  .run());
    S3O_TRY(put_tree_.bind(0, as_sql(tree.view))
                .bind(1, tree.height)
                .bind(2, as_sql(tree.written))
                .bind(3, as_sql(tree.last_decided.eviction))
                .bind(4, View(tree.last_decided.attempt))
                .run());
    return with && rule_holds(Rule::one_transaction) ? with(database_) : Status{};
  };
  database_.restore_ballast();
  const bool intends = std::any_of(changes.intents.begin(), changes.intents.end(),
                                   [](const auto& change) { return change.second.access == 0; });
  const auto what = tree.view != view_ ? "decide" : intends ? "intent" : "commit";
  S3O_TRY(database_.transact(what, fill));
  if (with && !rule_holds(Rule::one_transaction))
    S3O_TRY(database_.transact("participant", [&] { return with(database_); }));
  view_ = tree.view;
  return {};
}

}  // namespace s3oram
