// Keeps a server's control state in memory and in the tables of control.db.
#include "serverd/oram/store_database.h"

#include <map>

#include "oramcore/base/rules.h"

namespace s3oram {

Bytes owner_of(const VolumeId& volume, Party server) {
  Writer owner;
  owner(volume, server);
  return owner.take();
}

Result<Control> Control::open(const std::filesystem::path& file, Disk& disk) {
  Control control;
  S3O_ASSIGN(control.tables_, ControlTables::open(file, disk));
  S3O_TRY(control.load());
  return control;
}

// ---- loading

Status Control::load() {
  S3O_ASSIGN(auto row, tables_.load_volume());
  if (row) {
    sums_.volume =
        sum_of_volume(tables_.format(), row->volume, row->session, row->tree_version, row->height);
    volume_ = std::move(row->volume);
    session_ = row->session;
    tree_version_ = row->tree_version;
    tree_ = BucketTable(row->height, volume_->params.stash_buckets());
    S3O_ASSIGN(const auto buckets, load_versions("buckets"));
    for (const auto& [bucket, ref] : buckets) {
      tree_.at(bucket) = ref;
      sums_.buckets ^= sum_of_bucket(bucket, ref);
    }
    S3O_TRY(load_prepared());
    S3O_ASSIGN(const auto attempts, tables_.load_attempts());
    for (const EvictionId& id : attempts) {
      attempts_.insert(id);
      sums_.attempts ^= sum_of_attempt(id);
    }
    S3O_ASSIGN(shares_are_lost_, tables_.load_lost_shares());
    S3O_ASSIGN(const auto missing, tables_.load_buckets("missing"));
    for (const BucketIndex bucket : missing)
      if (tree_.possible(bucket)) missing_.insert(bucket);
    S3O_ASSIGN(newest_, tables_.load_buckets("newest_buckets"));
    numbers_.find_free();
  }
  return check_sums();
}

Result<BucketVersions> Control::load_versions(std::string_view table) {
  BucketVersions versions;
  S3O_TRY(tables_.load_versions(table, tree_, volume_->params.bucket_size,
                                [&](BucketIndex bucket, const BucketVersionRef& ref) {
                                  numbers_.use(ref.bucket_version);
                                  versions.emplace_back(bucket, ref);
                                }));
  return versions;
}

Status Control::load_prepared() {
  S3O_ASSIGN(prepared_version_.versions, load_versions("prepared_buckets"));
  S3O_ASSIGN(const auto row, tables_.load_prepared(height()));
  if (!row) {
    if (prepared_version_.versions.empty()) return {};
    return fail(Errc::damaged_vault, "store {}: prepared buckets of no eviction",
                tables_.database().path());
  }
  prepared_ = row->id;
  prepared_version_.height = row->next_height;
  sums_.prepared = sum_of_prepared(row->id, row->next_height, prepared_version_.versions);
  return {};
}

Status Control::check_sums() {
  Database& database = tables_.database();
  S3O_ASSIGN(const auto stored, read_sums(database));
  if (stored) {
    if (!rule_holds(Rule::checksums)) return {};
    if (Status same = compare_sums(*stored, sums_); !same)
      return fail(same.error().code, "store {}: {}", database.path(), same.error().message);
    return {};
  }
  if (!volume_) return {};
  const Status kept = tables_.change("sums", sums_, [] { return Status{}; });
  if (!kept && kept.error().code != Errc::disk_full) return fail(kept.error());
  return {};  // on a full disk, the next change stores the sums
}

Status Control::load_again() {
  const auto forget = [this] {
    ControlTables tables = std::move(tables_);
    *this = Control();
    tables_ = std::move(tables);
  };
  forget();
  Status loaded = load();
  if (!loaded) forget();  // without a volume in memory, the failed request can be repeated
  return loaded;
}

// ---- the volume

Status Control::create(const VolumeDescription& volume) {
  const VolumeRow row{volume, {}, 0, volume.params.first_height};
  const ControlSums sums{sum_of_volume(ControlTables::newest_format(), volume, {}, 0, row.height)};
  S3O_TRY(tables_.change("create", sums, [&] { return tables_.put_volume(row); }));
  return load_again();
}

Status Control::reenrol(const ReenrolRequest& part) {
  S3O_ASSIGN(const auto complete, taken_up_.gather(part));
  if (!complete) return {};
  return take_up(part, Content::lost);
}

Status Control::rejoin(const ReenrolRequest& part) {
  if (part.from == 0) taken_up_ = {};  // an earlier attempt may have been cut short
  S3O_ASSIGN(const auto complete, taken_up_.gather(part));
  if (!complete) return {};
  return take_up(part, Content::by_stamps);
}

Control::Numbered Control::number_taken_up(Content content) const {
  std::map<BucketIndex, BucketVersionNumber> numbers;  // by first bucket of the version
  std::set<BucketVersionNumber> taken, incomplete;
  for (const BucketIndex bucket : missing_) incomplete.insert(tree_.at(bucket).bucket_version);
  for (const BucketShape& each : taken_up_.buckets())
    if (const auto number = tree_.find(each);
        number && content == Content::by_stamps && each.first == each.bucket)
      if (taken.insert(*number).second) numbers[each.bucket] = *number;
  // Avoid the numbers of versions that another eviction wrote: their places on the disk bear its
  // stamp, so in the place of another bucket of that eviction their content would pass for that
  // bucket's.
  std::set<BucketVersionNumber> avoided = taken;
  for (const auto& [bucket, ref] : prepared_version_.versions) avoided.insert(ref.bucket_version);
  for (const auto& [bucket, ref] : former_) avoided.insert(ref.bucket_version);
  BucketVersionNumber next = 0;
  Numbered numbered;
  for (const BucketShape& each : taken_up_.buckets()) {
    const auto [number, is_new] = numbers.try_emplace(each.first);
    if (is_new) {
      do ++next;
      while (avoided.contains(next));
      number->second = next;
    }
    if (!taken.contains(number->second) || incomplete.contains(number->second))
      numbered.missing.insert(each.bucket);
    numbered.versions.emplace_back(each.bucket,
                                   BucketVersionRef{number->second, each.slots, each.stamp});
  }
  return numbered;
}

Status Control::take_up(const ReenrolRequest& last, Content content) {
  const Numbered numbered = number_taken_up(content);
  const VolumeRow row{last.volume, last.session, last.tree_version, last.height};
  ControlSums sums{sum_of_volume(ControlTables::newest_format(), row.volume, row.session,
                                 row.tree_version, row.height)};
  for (const auto& [bucket, ref] : numbered.versions) sums.buckets ^= sum_of_bucket(bucket, ref);
  const bool had_stamps = tables_.exchange_stamps(true);
  const auto fill = [&]() -> Status {
    S3O_TRY(tables_.put_volume(row));
    S3O_TRY(tables_.put_lost_shares(true));
    S3O_TRY(tables_.put_versions("buckets", numbered.versions));
    if (row.volume.params.is_mirror()) S3O_TRY(tables_.put_missing({}, numbered.missing));
    return {};
  };
  const bool rejoins = content == Content::by_stamps;
  if (Status done = tables_.change(rejoins ? "rejoin" : "adopt", sums, fill); !done) {
    tables_.exchange_stamps(had_stamps);
    return done;
  }
  return load_again();
}

Status Control::set_session(const Session& session) {
  ControlSums sums = sums_;
  sums.volume = sum_of_volume(tables_.format(), *volume_, session, tree_version_, height());
  S3O_TRY(tables_.change("session", sums, [&] { return tables_.put_session(session); }));
  sums_ = sums;
  session_ = session;
  return {};
}

Status Control::note_shares(bool lost) {
  if (lost == shares_are_lost_) return {};
  S3O_TRY(tables_.database().transact("shares", [&] { return tables_.put_lost_shares(lost); }));
  shares_are_lost_ = lost;
  return {};
}

Status Control::found(const std::set<BucketIndex>& buckets) {
  std::set<BucketIndex> left = missing_;
  for (const BucketIndex bucket : buckets) left.erase(bucket);
  if (left.size() == missing_.size()) return {};
  S3O_TRY(
      tables_.database().transact("found", [&] { return tables_.put_missing(missing_, left); }));
  missing_ = std::move(left);
  return {};
}

std::set<BucketIndex> Control::missing_after(const BucketVersions& changes) const {
  if (missing_.empty()) return {};
  std::set<BucketVersionNumber> incomplete;
  for (const BucketIndex bucket : missing_) incomplete.insert(tree_.at(bucket).bucket_version);
  std::set<BucketIndex> missing = missing_;
  for (const auto& [bucket, ref] : changes)
    if (incomplete.contains(ref.bucket_version))
      missing.insert(bucket);
    else
      missing.erase(bucket);
  return missing;
}

Result<BucketVersionRef> Control::bucket(BucketIndex bucket, std::uint64_t tree_version) const {
  if (tree_version == tree_version_ || (has_former_ && tree_version + 1 == tree_version_)) {
    if (tree_version != tree_version_) {
      const auto found = former_.find(bucket);
      if (found != former_.end()) return found->second;
    }
    return tree_.possible(bucket) ? tree_.at(bucket) : BucketVersionRef{};
  }
  return fail(Errc::former_view, "tree version {} is not held; the current one is {}", tree_version,
              tree_version_);
}

// ---- evictions

Status Control::attempt(const EvictionId& id) {
  ControlSums sums = sums_;
  sums.attempts ^= sum_of_attempt(id);
  tables_.database().restore_ballast();
  S3O_TRY(tables_.change("attempt", sums, [&] { return tables_.put_attempt(id); }));
  sums_ = sums;
  attempts_.insert(id);
  return {};
}

Status Control::prepare(const EvictionId& id, unsigned next_height,
                        const BucketVersions& versions) {
  ControlSums sums = sums_;
  sums.prepared = sum_of_prepared(id, next_height, versions);
  OtherVersion prepared{next_height, versions};
  S3O_TRY(tables_.change("prepared", sums, [&] { return tables_.put_prepared(id, prepared); }));
  sums_ = sums;
  for (const auto& version : versions) numbers_.use(version.second.bucket_version);
  prepared_ = id;
  prepared_version_ = std::move(prepared);
  return {};
}

Status Control::commit() {
  const unsigned next_height = prepared_version_.height;
  const BucketVersions changes =
      tree_.changes(prepared_version_.versions, next_height, volume_->params.is_ring());
  std::set<BucketIndex> missing = missing_after(changes);
  ControlSums sums{
      sum_of_volume(tables_.format(), *volume_, session_, tree_version_ + 1, next_height),
      sums_.buckets};
  for (const auto& [bucket, ref] : changes) {
    if (tree_.possible(bucket)) sums.buckets ^= sum_of_bucket(bucket, tree_.at(bucket));
    sums.buckets ^= sum_of_bucket(bucket, ref);
  }
  const auto fill = [&]() -> Status {
    S3O_TRY(put_former(changes));
    S3O_TRY(tables_.change_buckets(changes));
    S3O_TRY(tables_.put_newest(prepared_version_.versions));
    S3O_TRY(tables_.put_tree(tree_version_ + 1, next_height));
    S3O_TRY(tables_.drop_prepared());
    S3O_TRY(tables_.drop_attempts());
    return tables_.put_missing(missing_, missing);
  };
  S3O_TRY(tables_.change("flip", sums, fill));
  missing_ = std::move(missing);
  sums_ = sums;
  release();
  ++tree_version_;
  tree_.set_height(next_height);
  for (const auto& [bucket, ref] : changes) {
    numbers_.use(ref.bucket_version);
    former_.emplace(bucket, tree_.at(bucket));  // its number stays in use until release()
    tree_.at(bucket) = ref;
  }
  for (const auto& version : prepared_version_.versions)
    numbers_.give_back(version.second.bucket_version);
  has_former_ = true;
  if (!rule_holds(Rule::former_view)) release();
  newest_.clear();
  for (const auto& version : prepared_version_.versions) newest_.push_back(version.first);
  attempts_.clear();
  prepared_.reset();
  prepared_version_ = {};
  return {};
}

Status Control::discard() {
  ControlSums sums = sums_;
  sums.prepared = 0;
  S3O_TRY(tables_.change("discard", sums, [&] { return tables_.drop_prepared(); }));
  sums_ = sums;
  for (const auto& version : prepared_version_.versions)
    numbers_.give_back(version.second.bucket_version);
  prepared_.reset();
  prepared_version_ = {};
  return {};
}

// A ring has only one server, so no commit is ever taken back. Slots of format 2 have no stamps, so
// an overwritten version could not be noticed.
Status Control::put_former(const BucketVersions& changes) {
  S3O_TRY(tables_.drop_former());
  if (volume_->params.is_ring() || !has_stamps()) return {};
  OtherVersion former{height(), {}};
  for (const auto& change : changes)
    if (tree_.possible(change.first))
      former.versions.emplace_back(change.first, tree_.at(change.first));
  return tables_.put_former(*prepared_, former);
}

Result<std::optional<OtherVersion>> Control::load_former(const EvictionId& id) {
  S3O_ASSIGN(const auto row, tables_.load_former(id));
  if (!row) return std::optional<OtherVersion>();
  OtherVersion former{row->height, {}};
  S3O_ASSIGN(former.versions, load_versions("former_buckets"));
  if (row->sum == sum_of_prepared(id, former.height, former.versions)) return std::optional(former);
  return fail(Errc::damaged_vault, "store {}: the previous tree version is not as it was written",
              tables_.database().path());
}

void Control::replace(const BucketVersions& versions) {
  for (const auto& [bucket, ref] : versions) {
    numbers_.give_back(tree_.at(bucket).bucket_version);
    tree_.at(bucket) = ref;
  }
}

Result<bool> Control::revert(const EvictionId& id) {
  if (id.eviction + 1 != tree_version_ || prepared_ || !attempts_.empty()) return false;
  S3O_ASSIGN(auto former, load_former(id));  // counts its versions as used
  if (!former) return false;
  BucketVersions& versions = former->versions;
  if (former->height < height())  // the leaves of the added level become empty
    for (BucketIndex leaf = BucketIndex{1} << height(); leaf < BucketIndex{2} << height(); ++leaf)
      versions.emplace_back(leaf, BucketVersionRef{});
  ControlSums sums{
      sum_of_volume(tables_.format(), *volume_, session_, tree_version_ - 1, former->height),
      sums_.buckets, 0, sum_of_attempt(id)};
  for (const auto& [bucket, ref] : versions)
    sums.buckets ^= sum_of_bucket(bucket, tree_.at(bucket)) ^ sum_of_bucket(bucket, ref);
  const auto fill = [&]() -> Status {
    S3O_TRY(tables_.change_buckets(versions));
    S3O_TRY(tables_.drop_former());
    S3O_TRY(tables_.put_attempt(id));
    return tables_.put_tree(tree_version_ - 1, former->height);
  };
  if (Status reverted = tables_.change("revert", sums, fill); !reverted) {
    for (const auto& version : versions) numbers_.give_back(version.second.bucket_version);
    return fail(reverted.error());
  }
  sums_ = sums;
  release();
  replace(versions);
  tree_.set_height(former->height);
  --tree_version_;
  attempts_.insert(id);
  return true;
}

void Control::release() {
  for (const auto& [bucket, ref] : former_) numbers_.give_back(ref.bucket_version);
  former_.clear();
  has_former_ = false;
}

}  // namespace s3oram
