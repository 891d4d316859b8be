// The SQL of control.db.
#include "serverd/oram/control_tables.h"

#include "oramcore/base/format_number.h"
#include "oramcore/db/known_format.h"
#include "oramcore/protocol/store_size.h"

namespace s3oram {
namespace {

constexpr int kFormat = 3, kWithoutStamps = 2;

bool is_height(std::int64_t height) { return height >= 1 && height <= kMaxHeight; }

/// Checks the pages and the lists of free pages, because SQLite would overwrite a page in use that
/// a list calls free. Errors: damaged_vault.
Status require_sound_pages(Database& database) {
  S3O_ASSIGN(auto check, database.prepare("PRAGMA quick_check(1)"));
  S3O_TRY(check.step());
  if (const std::string found = check.text(0); found != "ok")
    return fail(Errc::damaged_vault, "database {}: its pages are damaged: {}", database.path(),
                found.substr(found.rfind('\n') + 1));  // after a heading
  return {};
}

template <class T>
Bytes packed(const T& value) {
  Writer writer;
  const_cast<T&>(value).fields(writer);
  return writer.take();
}

}  // namespace

Result<ControlTables> ControlTables::open(const std::filesystem::path& file, Disk& disk) {
  ControlTables tables;
  S3O_ASSIGN(tables.database_, Database::open(file.string(), Database::Mode::create, disk));
  Database& database = tables.database_;
  database.watch_directory();
  S3O_TRY(require_format(database, "SELECT format FROM volume", kFormat, "", kWithoutStamps));
  S3O_TRY(require_sound_pages(database));
  S3O_TRY(database.keep_ballast(kServerBallast));
  S3O_TRY(database.transact("tables", [&] { return tables.make(); }));
  return tables;
}

std::int64_t ControlTables::format() const { return has_stamps_ ? kFormat : kWithoutStamps; }

std::int64_t ControlTables::newest_format() { return kFormat; }

Status ControlTables::change(std::string_view step, const ControlSums& sums,
                             const std::function<Status()>& fill) {
  return database_.transact(step, [&]() -> Status {
    S3O_TRY(fill());
    return put_sums(database_, sums);
  });
}

// Called in a transaction.
Status ControlTables::make() {
  S3O_TRY(database_.execute(
      "CREATE TABLE IF NOT EXISTS volume (one INTEGER PRIMARY KEY CHECK (one = 1),"
      " format INTEGER NOT NULL, description BLOB NOT NULL, session BLOB NOT NULL,"
      " view INTEGER NOT NULL, height INTEGER NOT NULL);"
      "CREATE TABLE IF NOT EXISTS buckets (bucket INTEGER PRIMARY KEY,"
      " frame INTEGER NOT NULL, slots INTEGER NOT NULL, stamp INTEGER);"
      "CREATE TABLE IF NOT EXISTS prepared (one INTEGER PRIMARY KEY CHECK (one = 1),"
      " id BLOB NOT NULL, next_height INTEGER NOT NULL);"
      "CREATE TABLE IF NOT EXISTS prepared_buckets (bucket INTEGER PRIMARY KEY,"
      " frame INTEGER NOT NULL, slots INTEGER NOT NULL, stamp INTEGER);"
      "CREATE TABLE IF NOT EXISTS attempts (id BLOB PRIMARY KEY);"
      "CREATE TABLE IF NOT EXISTS former (one INTEGER PRIMARY KEY CHECK (one = 1),"
      " id BLOB NOT NULL, height INTEGER NOT NULL, sum INTEGER NOT NULL);"
      "CREATE TABLE IF NOT EXISTS former_buckets (bucket INTEGER PRIMARY KEY,"
      " frame INTEGER NOT NULL, slots INTEGER NOT NULL, stamp INTEGER);"
      "CREATE TABLE IF NOT EXISTS lost_shares (one INTEGER PRIMARY KEY CHECK (one = 1));"
      "CREATE TABLE IF NOT EXISTS missing (bucket INTEGER PRIMARY KEY);"
      "CREATE TABLE IF NOT EXISTS newest_buckets (bucket INTEGER PRIMARY KEY);"));
  return make_sums_table(database_);
}

// ---- loading

Result<std::optional<VolumeRow>> ControlTables::load_volume() {
  S3O_ASSIGN(auto row,
             database_.prepare("SELECT format, description, session, view, height FROM volume"));
  S3O_ASSIGN(const auto there, row.step());
  if (!there) return std::optional<VolumeRow>();
  has_stamps_ = row.integer(0) > kWithoutStamps;
  auto volume = decode<VolumeDescription>(row.blob(1));
  const auto session = decode<Session>(row.blob(2));
  if (!volume || !check_params(volume->params) || !session || !is_height(row.integer(4)))
    return fail(Errc::damaged_vault, "store {}: the row of the volume is invalid",
                database_.path());
  return std::optional(VolumeRow{std::move(*volume), *session,
                                 static_cast<std::uint64_t>(row.integer(3)),
                                 static_cast<unsigned>(row.integer(4))});
}

Status ControlTables::load_versions(std::string_view table, const BucketTable& tree,
                                    std::uint32_t bucket_size, const EachVersion& each) {
  S3O_ASSIGN(auto rows, database_.prepare(fmt::format("SELECT bucket, frame, slots, {} FROM {}",
                                                      has_stamps_ ? "stamp" : "NULL", table)));
  for (;;) {
    S3O_ASSIGN(const auto more, rows.step());
    if (!more) return {};
    const auto bucket = static_cast<BucketIndex>(rows.integer(0));
    const std::int64_t bucket_version = rows.integer(1), slots = rows.integer(2);
    if (!tree.possible(bucket) || bucket_version < 0 || bucket_version > tree.most_versions() ||
        slots < 0 || slots > bucket_size)
      return fail(Errc::damaged_vault, "store {}: there is an impossible bucket in table {}",
                  database_.path(), table);
    BucketVersionRef ref{static_cast<BucketVersionNumber>(bucket_version),
                         static_cast<std::uint16_t>(slots)};
    if (!rows.is_null(3)) ref.stamp = static_cast<std::uint64_t>(rows.integer(3));
    each(bucket, ref);
  }
}

Result<std::optional<ControlTables::PreparedRow>> ControlTables::load_prepared(unsigned height) {
  S3O_ASSIGN(auto row, database_.prepare("SELECT id, next_height FROM prepared"));
  S3O_ASSIGN(const auto there, row.step());
  if (!there) return std::optional<PreparedRow>();
  const auto id = decode<EvictionId>(row.blob(0));
  const std::int64_t next_height = row.integer(1);
  if (!id || !is_height(next_height) || (next_height != height && next_height != height + 1))
    return fail(Errc::damaged_vault, "store {}: the row of a prepared eviction is invalid",
                database_.path());
  return std::optional(PreparedRow{*id, static_cast<unsigned>(next_height)});
}

Result<std::vector<EvictionId>> ControlTables::load_attempts() {
  S3O_ASSIGN(auto rows, database_.prepare("SELECT id FROM attempts"));
  std::vector<EvictionId> attempts;
  for (;;) {
    S3O_ASSIGN(const auto more, rows.step());
    if (!more) return attempts;
    const auto id = decode<EvictionId>(rows.blob(0));
    if (!id) return fail(Errc::damaged_vault, "store {}: bad attempt", database_.path());
    attempts.push_back(*id);
  }
}

Result<bool> ControlTables::load_lost_shares() {
  S3O_ASSIGN(auto lost, database_.prepare("SELECT 1 FROM lost_shares"));
  return lost.step();
}

Result<std::vector<BucketIndex>> ControlTables::load_buckets(std::string_view table) {
  S3O_ASSIGN(auto rows, database_.prepare(fmt::format("SELECT bucket FROM {}", table)));
  std::vector<BucketIndex> buckets;
  for (;;) {
    S3O_ASSIGN(const auto more, rows.step());
    if (!more) return buckets;
    buckets.push_back(static_cast<BucketIndex>(rows.integer(0)));
  }
}

Result<std::optional<ControlTables::FormerRow>> ControlTables::load_former(const EvictionId& id) {
  S3O_ASSIGN(auto row, database_.prepare("SELECT height, sum FROM former WHERE id = ?"));
  S3O_ASSIGN(const auto there, row.bind(0, packed(id)).step());
  if (!there) return std::optional<FormerRow>();
  return std::optional(
      FormerRow{static_cast<unsigned>(row.integer(0)), static_cast<std::uint64_t>(row.integer(1))});
}

// ---- putting

Status ControlTables::put_volume(const VolumeRow& row) {
  S3O_TRY(
      database_.execute("DROP TABLE buckets; DROP TABLE prepared_buckets; DELETE FROM prepared;"
                        "DELETE FROM attempts; DELETE FROM lost_shares; DELETE FROM missing;"
                        "DELETE FROM newest_buckets;"
                        "DELETE FROM former; DELETE FROM former_buckets;"));
  S3O_TRY(make());
  S3O_ASSIGN(auto put,
             database_.prepare("INSERT OR REPLACE INTO volume VALUES (1, ?, ?, ?, ?, ?)"));
  return put.bind(0, kFormat)
      .bind(1, packed(row.volume))
      .bind(2, packed(row.session))
      .bind(3, static_cast<std::int64_t>(row.tree_version))
      .bind(4, row.height)
      .run();
}

Status ControlTables::put_session(const Session& session) {
  S3O_ASSIGN(auto row, database_.prepare("UPDATE volume SET session = ?"));
  return row.bind(0, packed(session)).run();
}

Status ControlTables::put_tree(std::uint64_t tree_version, unsigned height) {
  S3O_ASSIGN(auto row, database_.prepare("UPDATE volume SET view = ?, height = ?"));
  return row.bind(0, static_cast<std::int64_t>(tree_version)).bind(1, height).run();
}

Status ControlTables::put_lost_shares(bool lost) {
  return database_.execute(lost ? "INSERT OR REPLACE INTO lost_shares VALUES (1)"
                                : "DELETE FROM lost_shares");
}

Status ControlTables::put_missing(const std::set<BucketIndex>& before,
                                  const std::set<BucketIndex>& after) {
  S3O_ASSIGN(auto put, database_.prepare("INSERT OR REPLACE INTO missing VALUES (?)"));
  S3O_ASSIGN(auto erase, database_.prepare("DELETE FROM missing WHERE bucket = ?"));
  for (const BucketIndex bucket : after)
    if (!before.contains(bucket)) S3O_TRY(put.bind(0, static_cast<std::int64_t>(bucket)).run());
  for (const BucketIndex bucket : before)
    if (!after.contains(bucket)) S3O_TRY(erase.bind(0, static_cast<std::int64_t>(bucket)).run());
  return {};
}

Status ControlTables::put_newest(const BucketVersions& versions) {
  S3O_TRY(database_.execute("DELETE FROM newest_buckets"));
  S3O_ASSIGN(auto put, database_.prepare("INSERT OR REPLACE INTO newest_buckets VALUES (?)"));
  for (const auto& version : versions)
    S3O_TRY(put.bind(0, static_cast<std::int64_t>(version.first)).run());
  return {};
}

Status ControlTables::put_versions(std::string_view table, const BucketVersions& versions) {
  S3O_ASSIGN(auto put, database_.prepare(fmt::format("INSERT OR REPLACE INTO {} VALUES (?, ?, ?{})",
                                                     table, has_stamps_ ? ", ?" : "")));
  for (const auto& [bucket, ref] : versions) {
    put.bind(0, static_cast<std::int64_t>(bucket)).bind(1, ref.bucket_version).bind(2, ref.slots);
    if (has_stamps_ && ref.stamp)
      put.bind(3, static_cast<std::int64_t>(*ref.stamp));
    else if (has_stamps_)
      put.bind_null(3);
    S3O_TRY(put.run());
  }
  return {};
}

Status ControlTables::change_buckets(const BucketVersions& changes) {
  S3O_ASSIGN(auto erase, database_.prepare("DELETE FROM buckets WHERE bucket = ?"));
  BucketVersions filled;
  for (const auto& change : changes) {
    if (change.second.bucket_version != 0)
      filled.push_back(change);
    else
      S3O_TRY(erase.bind(0, static_cast<std::int64_t>(change.first)).run());
  }
  return put_versions("buckets", filled);
}

Status ControlTables::put_attempt(const EvictionId& id) {
  S3O_ASSIGN(auto row, database_.prepare("INSERT INTO attempts VALUES (?)"));
  return row.bind(0, packed(id)).run();
}

Status ControlTables::put_prepared(const EvictionId& id, const OtherVersion& prepared) {
  S3O_ASSIGN(auto row, database_.prepare("INSERT INTO prepared VALUES (1, ?, ?)"));
  S3O_TRY(row.bind(0, packed(id)).bind(1, prepared.height).run());
  return put_versions("prepared_buckets", prepared.versions);
}

Status ControlTables::drop_prepared() {
  return database_.execute("DELETE FROM prepared; DELETE FROM prepared_buckets;");
}

Status ControlTables::drop_attempts() { return database_.execute("DELETE FROM attempts;"); }

Status ControlTables::put_former(const EvictionId& id, const OtherVersion& former) {
  S3O_TRY(put_versions("former_buckets", former.versions));
  S3O_ASSIGN(auto row, database_.prepare("INSERT INTO former VALUES (1, ?, ?, ?)"));
  return row.bind(0, packed(id))
      .bind(1, former.height)
      .bind(2, static_cast<std::int64_t>(sum_of_prepared(id, former.height, former.versions)))
      .run();
}

Status ControlTables::drop_former() {
  return database_.execute("DELETE FROM former; DELETE FROM former_buckets;");
}

}  // namespace s3oram
