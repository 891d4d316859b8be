// Bucket versions at the server: fetching their rows, storing new ones, and the rules of prepare,
// commit, discard and release (docs/durability.md).
#include <algorithm>
#include <cstring>
#include <set>

#include "oramcore/base/rules.h"
#include "serverd/ring/server.h"

namespace s3oram::ring {

Result<BucketVersionRef> Server::pin(BucketIndex bucket, VersionStamp stamp) {
  for (const std::uint64_t back : {0, 1}) {
    if (back > control_.tree_version()) break;
    const auto ref = control_.bucket(bucket, control_.tree_version() - back);
    if (!ref || ref->bucket_version == 0 || ref->stamp != stamp) continue;
    control_.reuse(ref->bucket_version);
    return *ref;
  }
  return fail(Errc::former_view, "bucket {} has no such version here", bucket);
}

void Server::unpin(const BucketVersionRef& ref) {
  control_.give_back(ref.bucket_version);
  forget_freed();
}

void Server::forget_freed() {
  for (const BucketVersionNumber number : control_.take_freed()) bucket_store_->forget(number);
}

Task<Result<Bytes>> Server::fetch_rows(FetchRowsRequest request) {
  const std::size_t width = request.width == 0 ? params_->row_size : request.width;
  if (request.count > rows_in_message(*params_) || width > params_->row_size ||
      request.first + request.count > static_cast<int>(params_->bucket_size))
    co_return malformed();
  S3O_CO_ASSIGN(const BucketVersionRef ref, pin(request.bucket, request.stamp));
  // (Parts of rows are what a client reads that has lost its state.)
  record(request.width == 0 ? AccessLog::Cause::eviction : AccessLog::Cause::upkeep,
         AccessLog::Operation::read, {request.bucket, request.first, request.count});
  auto version = co_await offload(
      readers_, [this, ref, level = level_of(request.bucket)] { return rows_->read(ref, level); });
  unpin(ref);
  if (!version) co_return fail(version.error());
  Bytes rows;
  rows.reserve(request.count * width);
  for (std::size_t row = request.first; row < std::size_t{request.first} + request.count; ++row)
    rows.insert(rows.end(), (*version)->slot(row), (*version)->slot(row) + width);
  co_return encode(FetchRowsAnswer{rows});
}

Task<Result<Bytes>> Server::check(CheckRequest request) {
  S3O_CO_ASSIGN(const BucketVersionRef ref, pin(request.bucket, request.stamp));
  record(AccessLog::Cause::upkeep, AccessLog::Operation::read,
         {request.bucket, 0, params_->bucket_size + 1u});
  const auto begun = sync_->begin();
  auto checked = co_await offload(background_, [this, ref] { return rows_->check(ref); });
  unpin(ref);
  if (!checked) co_return fail(checked.error());
  if (checked->rebuilt > 0) S3O_CO_TRY(co_await sync_->sync(begun));
  metrics_.healed_slots.add(checked->rebuilt);
  co_return encode(*checked);
}

// ---- rewrites

std::size_t Server::incomplete() const {
  std::size_t count = 0;
  for (const auto& [id, stored] : stored_)
    for (const auto& [bucket, version] : stored.versions) count += !version.written;
  return count;
}

/// The version that these rows belong to, made if they are its first. Errors: bad_request (there is
/// no such bucket), failed (too much is under way, or the attempt was discarded).
Result<Server::NewVersion*> Server::new_version(const EvictionId& id, BucketIndex bucket) {
  const std::uint64_t next = control_.tree_version();
  const unsigned level = bucket == 0 ? 0 : level_of(bucket);
  if (id.eviction < next || id.eviction - next >= kMostAttempts || control_.prepared() == id ||
      level < params_->top_levels || level > std::min(control_.next_height() + 1, kMaxHeight))
    return malformed();
  if (is_discarded(id)) return fail(Errc::failed, "the attempt was discarded");
  const auto stored = stored_.find(id);
  if (stored == stored_.end() && stored_.size() >= kMostAttempts)
    return fail(Errc::failed, "more than {} attempts are under way", kMostAttempts);
  if (stored != stored_.end()) {
    auto& versions = stored->second.versions;
    if (const auto known = versions.find(bucket); known != versions.end()) return &known->second;
    if (versions.size() > kMaxHeight) return malformed();
  }
  if (incomplete() >= kMostIncomplete)
    return fail(Errc::failed, "too many buckets are being stored");
  S3O_ASSIGN(auto content, bucket_store_->copy({}));
  const auto [attempt, is_first] = stored_.try_emplace(id);
  if (is_first) attempt->second.begun = sync_->begin();
  NewVersion& made = attempt->second.versions[bucket];
  const auto present = control_.bucket(bucket, next);
  const bool in_place = !rule_holds(Rule::copy_on_write) && present && present->bucket_version != 0;
  made.number = in_place ? control_.reuse(present->bucket_version) : control_.allocate();
  made.content = std::move(content);
  made.has.resize(params_->bucket_size);
  made.missing = params_->bucket_size;
  return &made;
}

Task<Result<Bytes>> Server::store_rows(StoreRowsRequest request) {
  const std::size_t row_size = params_->row_size, count = request.rows.size() / row_size;
  if (count == 0 || request.rows.size() % row_size != 0 ||
      request.first + count > params_->bucket_size)
    co_return malformed();
  S3O_CO_ASSIGN(NewVersion* const version, new_version(request.id, request.bucket));
  if (!version->content) co_return done();  // it came twice
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t row = request.first + i;
    if (version->has[row]) continue;
    version->has[row] = true;
    --version->missing;
    std::memcpy(version->content->slot(row), request.rows.data() + i * row_size, row_size);
  }
  if (version->missing > 0) co_return done();
  auto content = std::move(version->content);
  // A discard waits for no write: the number stays taken until this one has ended.
  const BucketVersionNumber number = control_.reuse(version->number);
  const Status written = co_await offload(background_, [&] {
    return rows_->write(number, std::move(content), stamp_of(request.id.attempt),
                        level_of(request.bucket));
  });
  control_.give_back(number);
  forget_freed();
  const auto stored = stored_.find(request.id);
  if (stored == stored_.end()) co_return fail(Errc::failed, "the attempt was discarded");
  if (!written) co_return fail(written.error());
  stored->second.versions.at(request.bucket).written = true;
  co_return done();
}

void Server::drop(const EvictionId& id) {
  const auto found = stored_.find(id);
  if (found == stored_.end()) return;
  for (const auto& [bucket, version] : found->second.versions) control_.give_back(version.number);
  stored_.erase(found);
  forget_freed();
}

/// Drops attempts at rewrites that are committed by now, because nobody will discard them any more.
void Server::drop_committed() {
  while (!stored_.empty() && stored_.begin()->first.eviction < control_.tree_version())
    drop(stored_.begin()->first);
}

bool Server::is_discarded(const EvictionId& id) const {
  return std::ranges::find(discarded_, id) != discarded_.end();
}

Task<Result<Bytes>> Server::prepare(PrepareRequest request) {
  if (control_.prepared() == request.id) co_return done();
  if (request.id.eviction != control_.tree_version() || request.next_height < control_.height() ||
      request.next_height > std::min(control_.height() + 1, kMaxHeight))
    co_return malformed();
  if (control_.prepared()) co_return fail(Errc::bad_request, "another rewrite is prepared");
  if (request.next_height > reserved_height_)
    S3O_CO_TRY(reserve_bucket_versions(request.next_height));
  const auto stored = stored_.find(request.id);
  const std::set<BucketIndex> buckets(request.buckets.begin(), request.buckets.end());
  if (buckets.size() != request.buckets.size()) co_return malformed();
  if (stored == stored_.end() || buckets.size() != stored->second.versions.size())
    co_return fail(Errc::failed, "the attempt's buckets are not all here");
  BucketVersions versions;
  for (const BucketIndex bucket : request.buckets) {
    const auto version = stored->second.versions.find(bucket);
    if (version == stored->second.versions.end() || !version->second.written)
      co_return fail(Errc::failed, "bucket {} of the attempt is not here", bucket);
    versions.emplace_back(bucket, BucketVersionRef{version->second.number,
                                                   static_cast<std::uint16_t>(params_->bucket_size),
                                                   stamp_of(request.id.attempt)});
  }
  if (rule_holds(Rule::durable_prepare)) S3O_CO_TRY(co_await sync_->sync(stored->second.begun));
  if (!stored_.contains(request.id) || control_.prepared() ||
      request.id.eviction != control_.tree_version())
    co_return fail(Errc::failed, "the attempt was discarded");
  S3O_CO_TRY(control_.prepare(request.id, request.next_height, versions));
  record_rewrite(request.buckets);
  drop(request.id);
  co_return done();
}

Task<Result<Bytes>> Server::commit(CommitRequest request) {
  if (control_.tree_version() == request.id.eviction + 1) co_return done();
  if (control_.prepared() != request.id)
    co_return fail(Errc::bad_request, "rewrite {} is not prepared", request.id.eviction);
  S3O_CO_TRY(control_.commit());
  drop_committed();
  metrics_.evictions.add();
  co_return done();
}

Task<Result<Bytes>> Server::discard(DiscardRequest request) {
  drop(request.id);
  // Rows of it, or its Prepare, may still be on the way.
  if (!is_discarded(request.id)) discarded_.push_back(request.id);
  if (discarded_.size() > kDiscarded) discarded_.pop_front();
  if (control_.prepared() == request.id) S3O_CO_TRY(control_.discard());
  forget_freed();
  co_return done();
}

// Retrievals of the former view that are under way have pinned what they read.
Task<Result<Bytes>> Server::release(ReleaseRequest request) {
  if (control_.tree_version() == request.id.eviction + 1) control_.release();
  forget_freed();
  co_return done();
}

Task<Result<Bytes>> Server::reserve(ReserveRequest request) {
  if (request.height > std::min(control_.next_height() + 1, kMaxHeight)) co_return malformed();
  if (request.height <= reserved_height_) co_return done();
  if (!control_.find_ballast())
    co_return fail(Errc::disk_full, "the disk of server {} is full", self_);
  const auto begun = sync_->begin();
  S3O_CO_TRY(
      co_await offload(background_, [&] { return reserve_bucket_versions(request.height); }));
  S3O_CO_TRY(co_await sync_->sync(begun));
  co_return done();
}

}  // namespace s3oram::ring
