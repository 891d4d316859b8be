#include "oramcore/state/client_state.h"

#include "oramcore/base/rules.h"

namespace s3oram {
namespace {

constexpr int kFormat = 1;

std::int64_t as_sql(std::uint64_t value) { return static_cast<std::int64_t>(value); }

}  // namespace

void StateChanges::merge_older(StateChanges older) {
  positions.merge(older.positions);
  stash.merge(older.stash);
}

Status ClientState::create(const std::filesystem::path& file) {
  if (std::filesystem::exists(file)) return fail(Errc::exists, "{} exists already", file.string());
  auto database = Database::open(file.string(), Database::Mode::create);
  if (!database) return fail(database.error());
  S3O_TRY(database->begin());
  S3O_TRY(database->execute(
      "CREATE TABLE tree (one INTEGER PRIMARY KEY CHECK (one = 1), format INTEGER NOT NULL,"
      " view INTEGER NOT NULL, height INTEGER NOT NULL, written INTEGER NOT NULL,"
      " eviction INTEGER NOT NULL, attempt BLOB NOT NULL);"
      "CREATE TABLE positions (block INTEGER PRIMARY KEY, position INTEGER NOT NULL,"
      " version INTEGER NOT NULL);"
      "CREATE TABLE stash (block INTEGER PRIMARY KEY, sealed BLOB NOT NULL);"
      "CREATE TABLE sessions (epoch INTEGER PRIMARY KEY, nonce BLOB NOT NULL);"
      "INSERT INTO tree VALUES (1, " +
      std::to_string(kFormat) +
      ", 0, 1, 0, 0, zeroblob(16));"
      "INSERT INTO sessions VALUES (0, zeroblob(16));"));
  return database->commit();
}

Result<ClientState> ClientState::open(const std::filesystem::path& file) {
  ClientState state;
  auto database = Database::open(file.string(), Database::Mode::read_write);
  if (!database) return fail(database.error());
  state.database_ = std::move(*database);
  const auto prepare = [&](Statement& statement, std::string_view sql) -> Status {
    auto prepared = state.database_.prepare(sql);
    if (!prepared) return fail(Errc::damaged_vault, "{}", prepared.error().message);
    statement = std::move(*prepared);
    return {};
  };
  S3O_TRY(prepare(state.put_position_, "INSERT OR REPLACE INTO positions VALUES (?, ?, ?)"));
  S3O_TRY(prepare(state.erase_position_, "DELETE FROM positions WHERE block = ?"));
  S3O_TRY(prepare(state.put_stash_, "INSERT OR REPLACE INTO stash VALUES (?, ?)"));
  S3O_TRY(prepare(state.erase_stash_, "DELETE FROM stash WHERE block = ?"));
  S3O_TRY(prepare(state.put_tree_,
                  "UPDATE tree SET view = ?, height = ?, written = ?, eviction = ?, attempt = ?"));
  return state;
}

Result<ClientState::Loaded> ClientState::load() {
  Loaded loaded;
  const auto damaged = [this](std::string_view what) {
    return fail(Errc::damaged_vault, "{}: {}", database_.path(), what);
  };
  const auto read = [this](std::string_view sql, auto&& each) -> Status {
    auto rows = database_.prepare(sql);
    if (!rows) return fail(Errc::damaged_vault, "{}", rows.error().message);
    for (;;) {
      auto more = rows->step();
      if (!more) return fail(more.error());
      if (!*more) return {};
      S3O_TRY(each(*rows));
    }
  };
  bool found = false;
  S3O_TRY(read("SELECT format, view, height, written, eviction, attempt FROM tree",
               [&](const Statement& row) -> Status {
                 found = true;
                 if (row.integer(0) != kFormat)
                   return fail(Errc::unsupported,
                               "{}: format {} is not known to this version of s3oramfs",
                               database_.path(), row.integer(0));
                 TreeState& tree = loaded.tree;
                 tree.view = static_cast<std::uint64_t>(row.integer(1));
                 tree.height = static_cast<unsigned>(row.integer(2));
                 tree.written = static_cast<std::uint16_t>(row.integer(3));
                 tree.last_decided.eviction = static_cast<std::uint64_t>(row.integer(4));
                 const Bytes attempt = row.blob(5);
                 if (attempt.size() != tree.last_decided.attempt.size() || tree.height < 1 ||
                     tree.height > kMaxHeight || tree.written != row.integer(3))
                   return damaged("impossible numbers in table tree");
                 std::copy(attempt.begin(), attempt.end(), tree.last_decided.attempt.begin());
                 return {};
               }));
  if (!found) return damaged("table tree is empty");
  S3O_TRY(read("SELECT block, sealed FROM stash", [&](const Statement& row) -> Status {
    loaded.stash[static_cast<BlockId>(row.integer(0))] = row.blob(1);
    return {};
  }));
  loaded.positions.reset(loaded.tree.height);
  S3O_TRY(read("SELECT block, position, version FROM positions ORDER BY block",
               [&](const Statement& row) -> Status {
                 const Position position = PositionMap::unpack(
                     static_cast<std::uint64_t>(row.integer(1)),
                     static_cast<std::uint64_t>(row.integer(2)), loaded.tree.height);
                 if (row.integer(0) < 0 || row.integer(0) >= std::int64_t{1} << 32 ||
                     position.kind == Position::Kind::unmapped ||
                     position.level > loaded.tree.height)
                   return damaged("impossible position of a block");
                 const auto block = static_cast<BlockId>(row.integer(0));
                 if (position.kind == Position::Kind::stash && !loaded.stash.contains(block))
                   return damaged("a block is missing in table stash");
                 loaded.positions.set(block, position);
                 return {};
               }));
  S3O_TRY(
      read("SELECT epoch, nonce FROM sessions ORDER BY epoch", [&](const Statement& row) -> Status {
        Session session{.epoch = static_cast<std::uint64_t>(row.integer(0))};
        const Bytes nonce = row.blob(1);
        if (nonce.size() != session.nonce.size()) return damaged("a session's nonce");
        std::copy(nonce.begin(), nonce.end(), session.nonce.begin());
        loaded.sessions.push_back(session);
        return {};
      }));
  if (loaded.sessions.empty()) return damaged("table sessions is empty");
  return loaded;
}

Status ClientState::add_session(const Session& session) {
  auto row = database_.prepare("INSERT INTO sessions VALUES (?, ?)");
  if (!row) return fail(row.error());
  return row->bind(0, as_sql(session.epoch)).bind(1, View(session.nonce)).run();
}

Status ClientState::forget_sessions_before(std::uint64_t epoch) {
  auto row = database_.prepare("DELETE FROM sessions WHERE epoch < ?");
  if (!row) return fail(row.error());
  return row->bind(0, as_sql(epoch)).run();
}

Status ClientState::commit(const TreeState& tree, const StateChanges& changes,
                           const std::function<Status(Database&)>& with) {
  S3O_TRY(database_.begin());
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
    S3O_TRY(put_tree_.bind(0, as_sql(tree.view))
                .bind(1, tree.height)
                .bind(2, tree.written)
                .bind(3, as_sql(tree.last_decided.eviction))
                .bind(4, View(tree.last_decided.attempt))
                .run());
    if (!rule_holds(Rule::one_transaction)) {
      S3O_TRY(database_.commit());
      S3O_TRY(database_.begin());
    }
    if (with) S3O_TRY(with(database_));
    return database_.commit();
  };
  auto status = fill();
  if (!status) database_.rollback();
  return status;
}

}  // namespace s3oram
