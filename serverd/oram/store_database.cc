// Keeps a server's control state in tables of control.db.
#include "serverd/oram/store_database.h"

#include <algorithm>
#include <map>

#include "oramcore/base/format_number.h"
#include "oramcore/base/rules.h"
#include "oramcore/db/known_format.h"

namespace s3oram {
namespace {

constexpr int kFormat = 3, kWithoutStamps = 2;

bool is_height(std::int64_t height) { return height >= 1 && height <= kMaxHeight; }

/// Checks the pages, and the lists of free ones: SQLite would overwrite a page in use that it takes
/// for a free one. Errors: damaged_vault.
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

std::vector<BucketIndex> path_buckets(const VolumeParams& params, Leaf leaf, unsigned height) {
  std::vector<BucketIndex> buckets;
  for (unsigned i = 0; i < params.stash_buckets(); ++i) buckets.push_back(kStashBucket + i);
  for (unsigned level = 1; level <= height; ++level) buckets.push_back(bucket_on_path(leaf, level));
  return buckets;
}

Bytes owner_of(const VolumeId& volume, Party server) {
  Writer owner;
  owner(volume, server);
  return owner.take();
}

Result<Control> Control::open(const std::filesystem::path& file, Disk& disk) {
  Control control;
  S3O_ASSIGN(auto database, Database::open(file.string(), Database::Mode::create, disk));
  control.database_ = std::move(database);
  control.database_.watch_directory();
  S3O_TRY(
      require_format(control.database_, "SELECT format FROM volume", kFormat, "", kWithoutStamps));
  S3O_TRY(require_sound_pages(control.database_));
  S3O_TRY(control.database_.keep_ballast(kServerBallast));
  S3O_TRY(control.database_.transact("tables", [&] { return control.make_tables(); }));
  S3O_TRY(control.load());
  return control;
}

// In a transaction.
Status Control::make_tables() {
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

std::int64_t Control::format() const { return has_stamps_ ? kFormat : kWithoutStamps; }

Status Control::load() {
  S3O_ASSIGN(const auto there, load_volume());
  if (there) {
    S3O_TRY(load_versions("buckets", [&](BucketIndex bucket, BucketVersionRef ref) {
      present(bucket) = ref;
      sums_.buckets ^= sum_of_bucket(bucket, ref);
    }));
    S3O_TRY(load_prepared());
    S3O_TRY(load_attempts());
    S3O_TRY(load_lost_shares());
    S3O_TRY(load_missing());
    S3O_TRY(load_newest());
    for (BucketVersionNumber bucket_version = 1; bucket_version < users_.size(); ++bucket_version)
      if (users_[bucket_version] == 0) free_.insert(bucket_version);
  }
  return check_sums();
}

Result<bool> Control::load_volume() {
  S3O_ASSIGN(auto row,
             database_.prepare("SELECT format, description, session, view, height FROM volume"));
  S3O_ASSIGN(const auto there, row.step());
  if (!there) return false;
  has_stamps_ = row.integer(0) > kWithoutStamps;
  volume_ = decode<VolumeDescription>(row.blob(1));
  const auto session = decode<Session>(row.blob(2));
  if (!volume_ || !check_params(volume_->params) || !session || !is_height(row.integer(4)))
    return fail(Errc::damaged_vault, "store {}: bad volume row", database_.path());
  session_ = *session;
  tree_version_ = static_cast<std::uint64_t>(row.integer(3));
  height_ = static_cast<unsigned>(row.integer(4));
  sums_.volume = sum_of_volume(row.integer(0), *volume_, session_, tree_version_, height_);
  buckets_.assign(bucket_slots(), {});
  stash_.assign(volume_->params.stash_buckets(), {});
  return true;
}

template <class Each>
Status Control::load_versions(std::string_view table, Each each) {
  S3O_ASSIGN(auto rows, database_.prepare(fmt::format("SELECT bucket, frame, slots, {} FROM {}",
                                                      has_stamps_ ? "stamp" : "NULL", table)));
  for (;;) {
    S3O_ASSIGN(const auto more, rows.step());
    if (!more) return {};
    const auto bucket = static_cast<BucketIndex>(rows.integer(0));
    const std::int64_t bucket_version = rows.integer(1), slots = rows.integer(2);
    if (!possible(bucket) || bucket_version < 0 || bucket_version > most_bucket_versions() ||
        slots < 0 || slots > volume_->params.bucket_size)
      return fail(Errc::damaged_vault, "store {}: impossible bucket in table {}", database_.path(),
                  table);
    BucketVersionRef ref{static_cast<BucketVersionNumber>(bucket_version),
                         static_cast<std::uint16_t>(slots)};
    if (!rows.is_null(3)) ref.stamp = static_cast<std::uint64_t>(rows.integer(3));
    use(ref.bucket_version);
    each(bucket, ref);
  }
}

Status Control::load_prepared() {
  S3O_TRY(load_versions("prepared_buckets", [&](BucketIndex bucket, BucketVersionRef ref) {
    prepared_versions_.versions.emplace_back(bucket, ref);
  }));
  S3O_ASSIGN(auto row, database_.prepare("SELECT id, next_height FROM prepared"));
  S3O_ASSIGN(const auto there, row.step());
  if (!there) {
    if (prepared_versions_.versions.empty()) return {};
    return fail(Errc::damaged_vault, "store {}: prepared buckets of no eviction", database_.path());
  }
  prepared_ = decode<EvictionId>(row.blob(0));
  const std::int64_t next_height = row.integer(1);
  if (!prepared_ || !is_height(next_height) ||
      (next_height != height_ && next_height != height_ + 1))
    return fail(Errc::damaged_vault, "store {}: bad prepared row", database_.path());
  prepared_versions_.next_height = static_cast<unsigned>(next_height);
  sums_.prepared =
      sum_of_prepared(*prepared_, prepared_versions_.next_height, prepared_versions_.versions);
  return {};
}

Status Control::load_attempts() {
  S3O_ASSIGN(auto rows, database_.prepare("SELECT id FROM attempts"));
  for (;;) {
    S3O_ASSIGN(const auto more, rows.step());
    if (!more) return {};
    const auto id = decode<EvictionId>(rows.blob(0));
    if (!id) return fail(Errc::damaged_vault, "store {}: bad attempt", database_.path());
    attempts_.insert(*id);
    sums_.attempts ^= sum_of_attempt(*id);
  }
}

Status Control::check_sums() {
  S3O_ASSIGN(const auto stored, read_sums(database_));
  if (stored) {
    if (!rule_holds(Rule::checksums)) return {};
    if (Status same = compare_sums(*stored, sums_); !same)
      return fail(same.error().code, "store {}: {}", database_.path(), same.error().message);
    return {};
  }
  if (!volume_) return {};
  const Status kept = database_.transact("sums", [&] { return put_sums(database_, sums_); });
  if (!kept && kept.error().code != Errc::disk_full) return fail(kept.error());
  return {};  // on a full disk the next change stores them
}

Status Control::create(const VolumeDescription& volume) {
  const unsigned height = volume.params.first_height;
  const auto fill = [&]() -> Status {
    S3O_TRY(put_volume(volume, {}, 0, height));
    return put_sums(database_, {sum_of_volume(kFormat, volume, {}, 0, height)});
  };
  S3O_TRY(database_.transact("create", fill));
  return load_again();
}

Status Control::reenrol(const ReenrolRequest& part) {
  S3O_ASSIGN(const auto complete, gather(part));
  if (!complete) return {};
  return take_up(part, Content::lost);
}

Status Control::rejoin(const ReenrolRequest& part) {
  if (part.from == 0) taken_up_ = {};  // an attempt before this one may have been cut short
  S3O_ASSIGN(const auto complete, gather(part));
  if (!complete) return {};
  return take_up(part, Content::by_stamps);
}

Result<bool> Control::gather(const ReenrolRequest& part) {
  if (taken_up_.session != part.session || taken_up_.tree_version != part.tree_version)
    taken_up_ = {part.session, part.tree_version, {}};
  const std::uint64_t told = taken_up_.buckets.size();
  const bool repeated = part.from < told && part.from + part.buckets.size() == told;
  if (!repeated) S3O_TRY(add_part(part));
  return part.last;
}

Status Control::take_up(const ReenrolRequest& last, Content content) {
  const bool rejoins = content == Content::by_stamps;
  std::map<BucketIndex, BucketVersionNumber> numbers;  // of the first buckets with their content
  std::set<BucketVersionNumber> taken, incomplete;
  for (const BucketIndex bucket : missing_) incomplete.insert(present(bucket).bucket_version);
  for (const BucketShape& each : taken_up_.buckets)
    if (const auto number = version_here(each); number && rejoins && each.first == each.bucket)
      if (taken.insert(*number).second) numbers[each.bucket] = *number;
  // What is on the disk there bears the stamp of an eviction that wrote other buckets, too: in the
  // place of one of those it would be taken for it.
  std::set<BucketVersionNumber> avoided = taken;
  for (const auto& [bucket, ref] : prepared_versions_.versions) avoided.insert(ref.bucket_version);
  for (const auto& [bucket, ref] : former_) avoided.insert(ref.bucket_version);
  BucketVersionNumber next = 0;
  BucketVersions versions;
  std::set<BucketIndex> missing;
  for (const BucketShape& each : taken_up_.buckets) {
    const auto [number, is_new] = numbers.try_emplace(each.first);
    if (is_new) {
      do ++next;
      while (avoided.contains(next));
      number->second = next;
    }
    if (!taken.contains(number->second) || incomplete.contains(number->second))
      missing.insert(each.bucket);
    versions.emplace_back(each.bucket, BucketVersionRef{number->second, each.slots, each.stamp});
  }
  const bool had_stamps = std::exchange(has_stamps_, true);
  const auto fill = [&]() -> Status {
    S3O_TRY(put_volume(last.volume, last.session, last.tree_version, last.height));
    S3O_TRY(put_lost_shares(true));
    S3O_TRY(put_buckets("buckets", versions));
    ControlSums sums{
        sum_of_volume(kFormat, last.volume, last.session, last.tree_version, last.height)};
    for (const auto& [bucket, ref] : versions) sums.buckets ^= sum_of_bucket(bucket, ref);
    if (last.volume.params.is_mirror()) {
      missing_.clear();  // as put_volume() has the table
      S3O_TRY(put_missing(missing));
    }
    return put_sums(database_, sums);
  };
  if (Status done = database_.transact(rejoins ? "rejoin" : "adopt", fill); !done) {
    has_stamps_ = had_stamps;
    return done;
  }
  return load_again();
}

/// The bucket version that is here already: attempts have different stamps, and write each bucket
/// once. A tree that has grown since lists what was a leaf here under its children.
std::optional<BucketVersionNumber> Control::version_here(const BucketShape& bucket) const {
  BucketIndex at = bucket.bucket;
  if (at < kStashBucket && level_of(at) > height_) at = bucket_on_path(at, height_);
  const bool there = at >= kStashBucket ? at - kStashBucket < stash_.size() : at < buckets_.size();
  if (!there || !bucket.stamp) return std::nullopt;
  const BucketVersionRef& ref = at >= kStashBucket ? stash_[at - kStashBucket] : buckets_[at];
  if (ref.bucket_version == 0 || ref.stamp != bucket.stamp || ref.slots != bucket.slots)
    return std::nullopt;
  return ref.bucket_version;
}

/// An impossible part discards those before it.
Status Control::add_part(const ReenrolRequest& part) {
  const unsigned height = part.height;
  if (height < 1 || height > kMaxHeight)
    return fail(Errc::bad_request, "there is no tree of height {}", height);
  auto& known = taken_up_.buckets;
  if (part.from > known.size())  // the parts before it came before a restart
    return fail(Errc::need_open, "{} buckets are known, and not {}", known.size(), part.from);
  if (part.from < known.size())
    return fail(Errc::bad_request, "{} buckets are known already", known.size());
  const VolumeParams& params = part.volume.params;
  for (const BucketShape& each : part.buckets) {
    const bool in_tree = each.bucket > kRoot && each.bucket <= bucket_count(height);
    const bool in_stash =
        each.bucket >= kStashBucket && each.bucket - kStashBucket < params.stash_buckets();
    const bool ascending = known.empty() || known.back().bucket < each.bucket;
    const auto first = std::ranges::lower_bound(known, each.first, {}, &BucketShape::bucket);
    const bool shares = each.first != each.bucket;
    if ((!in_tree && !in_stash) || !ascending || each.slots == 0 ||
        each.slots > params.bucket_size ||
        (shares && (first == known.end() || first->bucket != each.first))) {
      taken_up_ = {};
      return fail(Errc::bad_request, "a tree of height {} has no such bucket {}", height,
                  each.bucket);
    }
    known.push_back(each);
  }
  return {};
}

// Puts a volume without a bucket. To be called in a transaction.
Status Control::put_volume(const VolumeDescription& volume, const Session& session,
                           std::uint64_t tree_version, unsigned height) {
  S3O_TRY(
      database_.execute("DROP TABLE buckets; DROP TABLE prepared_buckets; DELETE FROM prepared;"
                        "DELETE FROM attempts; DELETE FROM lost_shares; DELETE FROM missing;"
                        "DELETE FROM newest_buckets;"
                        "DELETE FROM former; DELETE FROM former_buckets;"));
  S3O_TRY(make_tables());
  S3O_ASSIGN(auto row,
             database_.prepare("INSERT OR REPLACE INTO volume VALUES (1, ?, ?, ?, ?, ?)"));
  return row.bind(0, kFormat)
      .bind(1, packed(volume))
      .bind(2, packed(session))
      .bind(3, static_cast<std::int64_t>(tree_version))
      .bind(4, height)
      .run();
}

Status Control::load_again() {
  const auto forget = [this] {
    Database database = std::move(database_);
    *this = Control();
    database_ = std::move(database);
  };
  forget();
  const Status loaded = load();
  if (!loaded) forget();  // without a volume in memory, the failed request can be repeated
  return loaded;
}

BucketVersions Control::layout() const {
  BucketVersions filled;
  for (BucketIndex bucket = 0; bucket < buckets_.size(); ++bucket)
    if (buckets_[bucket].bucket_version != 0) filled.emplace_back(bucket, buckets_[bucket]);
  for (std::size_t i = 0; i < stash_.size(); ++i)
    if (stash_[i].bucket_version != 0) filled.emplace_back(kStashBucket + i, stash_[i]);
  return filled;
}

Status Control::set_session(const Session& session) {
  ControlSums sums = sums_;
  sums.volume = sum_of_volume(format(), *volume_, session, tree_version_, height_);
  const auto fill = [&]() -> Status {
    S3O_ASSIGN(auto row, database_.prepare("UPDATE volume SET session = ?"));
    S3O_TRY(row.bind(0, packed(session)).run());
    return put_sums(database_, sums);
  };
  S3O_TRY(database_.transact("session", fill));
  sums_ = sums;
  session_ = session;
  return {};
}

// In a transaction.
Status Control::load_lost_shares() {
  S3O_ASSIGN(auto lost, database_.prepare("SELECT 1 FROM lost_shares"));
  S3O_ASSIGN(const auto there, lost.step());
  shares_are_lost_ = there;
  return {};
}

Status Control::put_lost_shares(bool lost) {
  return database_.execute(lost ? "INSERT OR REPLACE INTO lost_shares VALUES (1)"
                                : "DELETE FROM lost_shares");
}

Status Control::load_missing() {
  S3O_ASSIGN(auto rows, database_.prepare("SELECT bucket FROM missing"));
  for (;;) {
    S3O_ASSIGN(const auto more, rows.step());
    if (!more) return {};
    const auto bucket = static_cast<BucketIndex>(rows.integer(0));
    if (possible(bucket)) missing_.insert(bucket);
  }
}

Status Control::put_missing(const std::set<BucketIndex>& missing) {
  S3O_ASSIGN(auto put, database_.prepare("INSERT OR REPLACE INTO missing VALUES (?)"));
  S3O_ASSIGN(auto erase, database_.prepare("DELETE FROM missing WHERE bucket = ?"));
  for (const BucketIndex bucket : missing)
    if (!missing_.contains(bucket)) S3O_TRY(put.bind(0, static_cast<std::int64_t>(bucket)).run());
  for (const BucketIndex bucket : missing_)
    if (!missing.contains(bucket)) S3O_TRY(erase.bind(0, static_cast<std::int64_t>(bucket)).run());
  return {};
}

Status Control::found(const std::set<BucketIndex>& buckets) {
  std::set<BucketIndex> left = missing_;
  for (const BucketIndex bucket : buckets) left.erase(bucket);
  if (left.size() == missing_.size()) return {};
  S3O_TRY(database_.transact("found", [&] { return put_missing(left); }));
  missing_ = std::move(left);
  return {};
}

std::set<BucketIndex> Control::missing_after(const BucketVersions& changes) const {
  if (missing_.empty()) return {};
  std::set<BucketVersionNumber> incomplete;
  for (const BucketIndex bucket : missing_)
    incomplete.insert(bucket >= kStashBucket ? stash_[bucket - kStashBucket].bucket_version
                                             : buckets_[bucket].bucket_version);
  std::set<BucketIndex> missing = missing_;
  for (const auto& [bucket, ref] : changes)
    if (incomplete.contains(ref.bucket_version))
      missing.insert(bucket);
    else
      missing.erase(bucket);
  return missing;
}

Status Control::load_newest() {
  newest_.clear();
  S3O_ASSIGN(auto rows, database_.prepare("SELECT bucket FROM newest_buckets"));
  for (;;) {
    S3O_ASSIGN(const auto more, rows.step());
    if (!more) return {};
    newest_.push_back(static_cast<BucketIndex>(rows.integer(0)));
  }
}

Status Control::put_newest(const BucketVersions& versions) {
  S3O_TRY(database_.execute("DELETE FROM newest_buckets"));
  S3O_ASSIGN(auto put, database_.prepare("INSERT OR REPLACE INTO newest_buckets VALUES (?)"));
  for (const auto& [bucket, ref] : versions)
    S3O_TRY(put.bind(0, static_cast<std::int64_t>(bucket)).run());
  return {};
}

Status Control::note_shares(bool lost) {
  if (lost == shares_are_lost_) return {};
  S3O_TRY(database_.transact("shares", [&] { return put_lost_shares(lost); }));
  shares_are_lost_ = lost;
  return {};
}

Result<BucketVersionRef> Control::bucket(BucketIndex bucket, std::uint64_t tree_version) const {
  if (tree_version == tree_version_ || (has_former_ && tree_version + 1 == tree_version_)) {
    if (tree_version != tree_version_) {
      const auto found = former_.find(bucket);
      if (found != former_.end()) return found->second;
    }
    if (!possible(bucket)) return BucketVersionRef{};
    return bucket >= kStashBucket ? stash_[bucket - kStashBucket] : buckets_[bucket];
  }
  return fail(Errc::former_view, "tree version {} is not held; the present one is {}", tree_version,
              tree_version_);
}

void Control::use(BucketVersionNumber bucket_version) {
  if (bucket_version == 0) return;
  if (bucket_version >= users_.size()) users_.resize(bucket_version + 1, 0);
  ++users_[bucket_version];
  free_.erase(bucket_version);
}

void Control::unuse(BucketVersionNumber bucket_version) {
  if (bucket_version == 0 || --users_[bucket_version] > 0) return;
  free_.insert(bucket_version);
  freed_.push_back(bucket_version);
}

BucketVersionNumber Control::allocate() {
  if (users_.empty()) users_.resize(1, 0);
  const BucketVersionNumber bucket_version =
      free_.empty() ? static_cast<BucketVersionNumber>(users_.size()) : *free_.begin();
  use(bucket_version);
  return bucket_version;
}

void Control::give_back(BucketVersionNumber bucket_version) { unuse(bucket_version); }

Status Control::put_buckets(std::string_view table, const BucketVersions& versions) {
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

Status Control::write_buckets(const BucketVersions& changes) {
  S3O_ASSIGN(auto erase, database_.prepare("DELETE FROM buckets WHERE bucket = ?"));
  BucketVersions filled;
  for (const auto& change : changes) {
    if (change.second.bucket_version != 0)
      filled.push_back(change);
    else
      S3O_TRY(erase.bind(0, static_cast<std::int64_t>(change.first)).run());
  }
  return put_buckets("buckets", filled);
}

Status Control::attempt(const EvictionId& id) {
  ControlSums sums = sums_;
  sums.attempts ^= sum_of_attempt(id);
  const auto fill = [&]() -> Status {
    S3O_ASSIGN(auto row, database_.prepare("INSERT INTO attempts VALUES (?)"));
    S3O_TRY(row.bind(0, packed(id)).run());
    return put_sums(database_, sums);
  };
  database_.restore_ballast();
  S3O_TRY(database_.transact("attempt", fill));
  sums_ = sums;
  attempts_.insert(id);
  return {};
}

Status Control::prepare(const EvictionId& id, unsigned next_height,
                        const BucketVersions& versions) {
  ControlSums sums = sums_;
  sums.prepared = sum_of_prepared(id, next_height, versions);
  const auto fill = [&]() -> Status {
    S3O_ASSIGN(auto row, database_.prepare("INSERT INTO prepared VALUES (1, ?, ?)"));
    S3O_TRY(row.bind(0, packed(id)).bind(1, next_height).run());
    S3O_TRY(put_buckets("prepared_buckets", versions));
    return put_sums(database_, sums);
  };
  S3O_TRY(database_.transact("prepared", fill));
  sums_ = sums;
  for (const auto& version : versions) use(version.second.bucket_version);
  prepared_ = id;
  prepared_versions_ = {next_height, versions};
  return {};
}

BucketVersions Control::changes_of_commit() const {
  BucketVersions changes = prepared_versions_.versions;
  // A level is added empty, or the old leaves become both of their children.
  if (prepared_versions_.next_height == height_ || volume_->params.is_ring()) return changes;
  std::unordered_map<BucketIndex, BucketVersionRef> leaves;
  const BucketIndex first = BucketIndex{1} << height_;
  for (BucketIndex leaf = first; leaf < 2 * first; ++leaf) leaves[leaf] = buckets_[leaf];
  std::erase_if(changes, [&](const auto& change) {
    if (change.first < first || change.first >= kStashBucket) return false;
    leaves[change.first] = change.second;
    return true;
  });
  for (const auto& [leaf, ref] : leaves) {
    changes.emplace_back(leaf, BucketVersionRef{});
    changes.emplace_back(child_of(leaf, 0), ref);
    changes.emplace_back(child_of(leaf, 1), ref);
  }
  return changes;
}

Status Control::commit() {
  const BucketVersions changes = changes_of_commit();
  const unsigned next_height = prepared_versions_.next_height;
  std::set<BucketIndex> missing = missing_after(changes);
  ControlSums sums{sum_of_volume(format(), *volume_, session_, tree_version_ + 1, next_height),
                   sums_.buckets};
  for (const auto& [bucket, ref] : changes) {
    if (possible(bucket)) sums.buckets ^= sum_of_bucket(bucket, present(bucket));
    sums.buckets ^= sum_of_bucket(bucket, ref);
  }
  const auto fill = [&]() -> Status {
    S3O_TRY(put_former(changes));
    S3O_TRY(write_buckets(changes));
    S3O_TRY(put_newest(prepared_versions_.versions));
    S3O_ASSIGN(auto row, database_.prepare("UPDATE volume SET view = ?, height = ?"));
    S3O_TRY(row.bind(0, static_cast<std::int64_t>(tree_version_ + 1)).bind(1, next_height).run());
    S3O_TRY(database_.execute(
        "DELETE FROM prepared; DELETE FROM prepared_buckets; DELETE FROM attempts;"));
    S3O_TRY(put_missing(missing));
    return put_sums(database_, sums);
  };
  S3O_TRY(database_.transact("flip", fill));
  missing_ = std::move(missing);
  sums_ = sums;
  release();
  height_ = next_height;
  ++tree_version_;
  buckets_.resize(bucket_slots());
  for (const auto& [bucket, ref] : changes) {
    use(ref.bucket_version);
    former_.emplace(bucket, present(bucket));  // keeps its use until released
    present(bucket) = ref;
  }
  for (const auto& version : prepared_versions_.versions) unuse(version.second.bucket_version);
  has_former_ = true;
  if (!rule_holds(Rule::former_view)) release();
  newest_.clear();
  for (const auto& [bucket, ref] : prepared_versions_.versions) newest_.push_back(bucket);
  attempts_.clear();
  prepared_.reset();
  prepared_versions_ = {};
  return {};
}

Status Control::discard() {
  ControlSums sums = sums_;
  sums.prepared = 0;
  const auto fill = [&]() -> Status {
    S3O_TRY(database_.execute("DELETE FROM prepared; DELETE FROM prepared_buckets;"));
    return put_sums(database_, sums);
  };
  S3O_TRY(database_.transact("discard", fill));
  sums_ = sums;
  for (const auto& version : prepared_versions_.versions) unuse(version.second.bucket_version);
  prepared_.reset();
  prepared_versions_ = {};
  return {};
}

// A ring has one server, so that nothing is to be taken back; slots of format 2 have no stamps by
// which an overwritten version would show.
Status Control::put_former(const BucketVersions& changes) {
  S3O_TRY(database_.execute("DELETE FROM former; DELETE FROM former_buckets;"));
  if (volume_->params.is_ring() || !has_stamps_) return {};
  BucketVersions versions;
  for (const auto& change : changes)
    if (possible(change.first)) versions.emplace_back(change.first, present(change.first));
  S3O_TRY(put_buckets("former_buckets", versions));
  S3O_ASSIGN(auto row, database_.prepare("INSERT INTO former VALUES (1, ?, ?, ?)"));
  return row.bind(0, packed(*prepared_))
      .bind(1, height_)
      .bind(2, static_cast<std::int64_t>(sum_of_prepared(*prepared_, height_, versions)))
      .run();
}

Result<std::optional<Control::Former>> Control::load_former(const EvictionId& id) {
  S3O_ASSIGN(auto row, database_.prepare("SELECT height, sum FROM former WHERE id = ?"));
  S3O_ASSIGN(const auto there, row.bind(0, packed(id)).step());
  if (!there) return std::optional<Former>();
  Former former{static_cast<unsigned>(row.integer(0)), {}};
  const auto sum = static_cast<std::uint64_t>(row.integer(1));
  S3O_TRY(load_versions("former_buckets", [&](BucketIndex bucket, BucketVersionRef ref) {
    former.versions.emplace_back(bucket, ref);
  }));
  if (sum == sum_of_prepared(id, former.height, former.versions)) return std::optional(former);
  return fail(Errc::damaged_vault, "store {}: the tree version before is not as it was written",
              database_.path());
}

void Control::replace(const BucketVersions& versions) {
  for (const auto& [bucket, ref] : versions) {
    unuse(present(bucket).bucket_version);
    present(bucket) = ref;
  }
}

Result<bool> Control::revert(const EvictionId& id) {
  if (id.eviction + 1 != tree_version_ || prepared_ || !attempts_.empty()) return false;
  S3O_ASSIGN(auto former, load_former(id));  // counts its versions as used
  if (!former) return false;
  BucketVersions& versions = former->versions;
  if (former->height < height_)  // the leaves of the level that was added
    for (BucketIndex leaf = BucketIndex{1} << height_; leaf < BucketIndex{2} << height_; ++leaf)
      versions.emplace_back(leaf, BucketVersionRef{});
  ControlSums sums{sum_of_volume(format(), *volume_, session_, tree_version_ - 1, former->height),
                   sums_.buckets, 0, sum_of_attempt(id)};
  for (const auto& [bucket, ref] : versions)
    sums.buckets ^= sum_of_bucket(bucket, present(bucket)) ^ sum_of_bucket(bucket, ref);
  const auto fill = [&]() -> Status {
    S3O_TRY(write_buckets(versions));
    S3O_TRY(database_.execute("DELETE FROM former; DELETE FROM former_buckets;"));
    S3O_ASSIGN(auto attempt, database_.prepare("INSERT INTO attempts VALUES (?)"));
    S3O_TRY(attempt.bind(0, packed(id)).run());
    S3O_ASSIGN(auto row, database_.prepare("UPDATE volume SET view = ?, height = ?"));
    S3O_TRY(
        row.bind(0, static_cast<std::int64_t>(tree_version_ - 1)).bind(1, former->height).run());
    return put_sums(database_, sums);
  };
  if (Status reverted = database_.transact("revert", fill); !reverted) {
    for (const auto& version : versions) unuse(version.second.bucket_version);
    return fail(reverted.error());
  }
  sums_ = sums;
  release();
  replace(versions);
  height_ = former->height;
  --tree_version_;
  buckets_.resize(bucket_slots());
  attempts_.insert(id);
  return true;
}

void Control::release() {
  for (const auto& [bucket, ref] : former_) unuse(ref.bucket_version);
  former_.clear();
  has_former_ = false;
}

}  // namespace s3oram
