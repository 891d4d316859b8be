// Carries out the requests that make, commit and give up bucket versions.
#include "serverd/ring/ring_rewrites.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "oramcore/base/rules.h"

namespace s3oram::ring {

Task<Result<Bytes>> RingRewrites::fetch_rows(FetchRowsRequest request) {
  const std::size_t width = request.width == 0 ? store_.params().row_size : request.width;
  if (request.count > rows_in_message(store_.params()) || width > store_.params().row_size ||
      request.first + request.count > static_cast<int>(store_.params().bucket_size))
    co_return malformed();
  S3O_CO_ASSIGN(const BucketVersionRef ref, store_.pin(request.bucket, request.stamp));
  // (Only a client that has lost its state reads parts of rows.)
  record_.rows(request.width == 0 ? RingRecord::Cause::eviction : RingRecord::Cause::upkeep,
               RingRecord::Operation::read, {request.bucket, request.first, request.count});
  auto version = co_await offload(state_.readers, [this, ref, level = level_of(request.bucket)] {
    return store_.rows().read(ref, level);
  });
  store_.unpin(ref);
  if (!version) co_return fail(version.error());
  Bytes rows;
  rows.reserve(request.count * width);
  for (std::size_t row = request.first; row < std::size_t{request.first} + request.count; ++row)
    rows.insert(rows.end(), (*version)->slot(row), (*version)->slot(row) + width);
  co_return encode(FetchRowsAnswer{rows});
}

Task<Result<Bytes>> RingRewrites::check(CheckRequest request) {
  S3O_CO_ASSIGN(const BucketVersionRef ref, store_.pin(request.bucket, request.stamp));
  record_.rows(RingRecord::Cause::upkeep, RingRecord::Operation::read,
               {request.bucket, 0, store_.params().bucket_size + 1u});
  const auto begun = state_.sync->begin();
  auto checked =
      co_await offload(state_.background, [this, ref] { return store_.rows().check(ref); });
  store_.unpin(ref);
  if (!checked) co_return fail(checked.error());
  if (checked->rebuilt > 0) S3O_CO_TRY(co_await state_.sync->sync(begun));
  state_.metrics.healed_slots.add(checked->rebuilt);
  co_return encode(*checked);
}

// ---- rewrites

std::size_t RingRewrites::incomplete() const {
  std::size_t count = 0;
  for (const auto& [id, stored] : stored_)
    for (const auto& [bucket, version] : stored.versions) count += !version.written;
  return count;
}

/// Returns the version that these rows belong to. Creates it if they are its first rows. Errors:
/// bad_request (there is no such bucket), failed (too much is under way, or the attempt was
/// discarded).
Result<RingRewrites::NewVersion*> RingRewrites::new_version(const EvictionId& id,
                                                            BucketIndex bucket) {
  const std::uint64_t next = state_.control.tree_version();
  const unsigned level = bucket == 0 ? 0 : level_of(bucket);
  if (id.eviction < next || id.eviction - next >= kMostAttempts ||
      state_.control.prepared() == id || level < store_.params().top_levels ||
      level > std::min(state_.control.next_height() + 1, kMaxHeight))
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
  S3O_ASSIGN(auto content, state_.bucket_store->copy({}));
  const auto [attempt, is_first] = stored_.try_emplace(id);
  if (is_first) attempt->second.begun = state_.sync->begin();
  NewVersion& made = attempt->second.versions[bucket];
  const auto present = state_.control.bucket(bucket, next);
  const bool in_place = !rule_holds(Rule::copy_on_write) && present && present->bucket_version != 0;
  made.number = in_place ? state_.control.numbers().use(present->bucket_version)
                         : state_.control.numbers().allocate();
  made.content = std::move(content);
  made.has.resize(store_.params().bucket_size);
  made.missing = store_.params().bucket_size;
  return &made;
}

Task<Result<Bytes>> RingRewrites::store_rows(StoreRowsRequest request) {
  const std::size_t row_size = store_.params().row_size, count = request.rows.size() / row_size;
  if (count == 0 || request.rows.size() % row_size != 0 ||
      request.first + count > store_.params().bucket_size)
    co_return malformed();
  S3O_CO_ASSIGN(NewVersion* const version, new_version(request.id, request.bucket));
  if (!version->content) co_return done();  // the rows came twice
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t row = request.first + i;
    if (version->has[row]) continue;
    version->has[row] = true;
    --version->missing;
    std::memcpy(version->content->slot(row), request.rows.data() + i * row_size, row_size);
  }
  if (version->missing > 0) co_return done();
  auto content = std::move(version->content);
  // A discard does not wait for writes, so the number stays in use until this write has ended.
  const BucketVersionNumber number = state_.control.numbers().use(version->number);
  const Status written = co_await offload(state_.background, [&] {
    return store_.rows().write(number, std::move(content), stamp_of(request.id.attempt),
                               level_of(request.bucket));
  });
  store_.give_back(number);
  store_.forget_freed();
  const auto stored = stored_.find(request.id);
  if (stored == stored_.end()) co_return fail(Errc::failed, "the attempt was discarded");
  if (!written) co_return fail(written.error());
  stored->second.versions.at(request.bucket).written = true;
  co_return done();
}

void RingRewrites::drop(const EvictionId& id) {
  const auto found = stored_.find(id);
  if (found == stored_.end()) return;
  for (const auto& [bucket, version] : found->second.versions) store_.give_back(version.number);
  stored_.erase(found);
  store_.forget_freed();
}

void RingRewrites::drop_all() {
  while (!stored_.empty()) drop(stored_.begin()->first);
}

/// Drops attempts at rewrites that are committed by now, because the client will no longer discard
/// them.
void RingRewrites::drop_committed() {
  while (!stored_.empty() && stored_.begin()->first.eviction < state_.control.tree_version())
    drop(stored_.begin()->first);
}

bool RingRewrites::is_discarded(const EvictionId& id) const {
  return std::ranges::find(discarded_, id) != discarded_.end();
}

Task<Result<Bytes>> RingRewrites::prepare(PrepareRequest request) {
  if (state_.control.prepared() == request.id) co_return done();
  if (request.id.eviction != state_.control.tree_version() ||
      request.next_height < state_.control.height() ||
      request.next_height > std::min(state_.control.height() + 1, kMaxHeight))
    co_return malformed();
  if (state_.control.prepared()) co_return fail(Errc::bad_request, "another rewrite is prepared");
  if (request.next_height > store_.reserved_height())
    S3O_CO_TRY(store_.reserve(request.next_height));
  const auto stored = stored_.find(request.id);
  const std::set<BucketIndex> buckets(request.buckets.begin(), request.buckets.end());
  if (buckets.size() != request.buckets.size()) co_return malformed();
  if (stored == stored_.end() || buckets.size() != stored->second.versions.size())
    co_return fail(Errc::failed, "not all buckets of this attempt are stored");
  BucketVersions versions;
  for (const BucketIndex bucket : request.buckets) {
    const auto version = stored->second.versions.find(bucket);
    if (version == stored->second.versions.end() || !version->second.written)
      co_return fail(Errc::failed, "bucket {} of the attempt is not here", bucket);
    versions.emplace_back(bucket,
                          BucketVersionRef{version->second.number,
                                           static_cast<std::uint16_t>(store_.params().bucket_size),
                                           stamp_of(request.id.attempt)});
  }
  if (rule_holds(Rule::durable_prepare))
    S3O_CO_TRY(co_await state_.sync->sync(stored->second.begun));
  if (!stored_.contains(request.id) || state_.control.prepared() ||
      request.id.eviction != state_.control.tree_version())
    co_return fail(Errc::failed, "the attempt was discarded");
  S3O_CO_TRY(state_.control.prepare(request.id, request.next_height, versions));
  record_.rewrite(request.buckets, store_.params().bucket_size);
  drop(request.id);
  co_return done();
}

Task<Result<Bytes>> RingRewrites::commit(CommitRequest request) {
  if (state_.control.tree_version() == request.id.eviction + 1) co_return done();
  if (state_.control.prepared() != request.id)
    co_return fail(Errc::bad_request, "rewrite {} is not prepared", request.id.eviction);
  S3O_CO_TRY(state_.control.commit());
  drop_committed();
  state_.metrics.evictions.add();
  co_return done();
}

Task<Result<Bytes>> RingRewrites::discard(DiscardRequest request) {
  drop(request.id);
  // Rows of the attempt, or its Prepare, may still be on the way.
  if (!is_discarded(request.id)) discarded_.push_back(request.id);
  if (discarded_.size() > kDiscarded) discarded_.pop_front();
  if (state_.control.prepared() == request.id) S3O_CO_TRY(state_.control.discard());
  store_.forget_freed();
  co_return done();
}

// Retrievals of the previous tree version that are under way have pinned what they read.
Task<Result<Bytes>> RingRewrites::release(ReleaseRequest request) {
  if (state_.control.tree_version() == request.id.eviction + 1) state_.control.release();
  store_.forget_freed();
  co_return done();
}

Task<Result<Bytes>> RingRewrites::reserve(ReserveRequest request) {
  if (request.height > std::min(state_.control.next_height() + 1, kMaxHeight))
    co_return malformed();
  if (request.height <= store_.reserved_height()) co_return done();
  if (!state_.control.find_ballast())
    co_return fail(Errc::disk_full, "the disk of server {} is full", state_.self);
  const auto begun = state_.sync->begin();
  S3O_CO_TRY(co_await offload(state_.background, [&] { return store_.reserve(request.height); }));
  S3O_CO_TRY(co_await state_.sync->sync(begun));
  co_return done();
}

}  // namespace s3oram::ring
