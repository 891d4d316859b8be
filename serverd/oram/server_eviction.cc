// One server's part in evictions: prepare, commit, discard, release.
#include "serverd/oram/server_eviction.h"

#include <algorithm>
#include <cstring>

#include "oramcore/base/rules.h"

namespace s3oram {
namespace {

// Bounds the subshares that one peer may send for attempts not known here yet: their number, and
// their bytes in steps of a whole path.
constexpr std::size_t kEarlySubshares = 4096, kEarlyPaths = 3;

}  // namespace

Task<Result<Bytes>> ServerEviction::reserve(ReserveRequest request, Payload&) {
  // The client may already have decided on the eviction that is prepared here, or have asked before
  // the tree grew.
  if (request.height > std::min(state_.control.next_height() + 1u, kMaxHeight))
    co_return malformed();
  if (request.height < state_.control.height()) co_return done();
  if (request.height > state_.control.height() && !state_.control.find_ballast(request.height))
    co_return fail(Errc::disk_full, "the disk of server {} is full", state_.self);
  const auto begun = state_.sync->begin();
  S3O_CO_TRY(
      co_await offload(state_.background, [&] { return reserve_bucket_versions(request.height); }));
  S3O_CO_TRY(co_await state_.sync->sync(begun));
  co_return done();
}

Status ServerEviction::reserve_bucket_versions(unsigned height) {
  if (!rule_holds(Rule::reserve_space)) return {};
  S3O_TRY(state_.bucket_store->reserve(state_.control.bucket_versions_needed(height)));
  reserved_height_ = height;
  return {};
}

Task<Result<Bytes>> ServerEviction::prepare(PrepareRequest request, Payload& owner) {
  // Reserve again, because this server may have been restarted since then. Check the session again,
  // because one that ends meanwhile does not know of this attempt yet.
  if (request.next_height > reserved_height_ &&
      request.next_height == state_.control.height() + 1u) {
    if (!state_.control.find_ballast(request.next_height))
      co_return fail(Errc::disk_full, "the disk of server {} is full", state_.self);
    S3O_CO_TRY(co_await offload(state_.background,
                                [&] { return reserve_bucket_versions(request.next_height); }));
    S3O_CO_TRY(state_.check_session(request.epoch));
  }
  if (state_.control.prepared() == request.id) co_return prepared_answer(request.id);
  if (request.id.eviction != state_.control.tree_version() ||
      request.height != state_.control.height() || request.next_height < request.height ||
      request.next_height > std::min(request.height + 1u, kMaxHeight))
    co_return malformed();
  if (eviction_ || state_.control.prepared())
    co_return fail(Errc::bad_request, "another attempt is under way");
  EvictionInput input{*state_.control.volume(), request.epoch,    request.id,
                      request.height,           std::move(owner), request.orders};
  auto eviction = state_.scheme->make_eviction(
      std::move(input), {state_.executor, state_.background, state_.clock, state_.rpc,
                         state_.random, [this] { return retrieval_.load(); }});
  if (!eviction) co_return fail(eviction.error());
  BucketRows writes;
  if ((*eviction)->reads_writes()) {
    S3O_CO_ASSIGN(auto rows, state_.root_buffer.rows(PathSlots::evicted(
                                 state_.params(), request.id.eviction, request.height)));
    writes = std::move(rows);
  }
  // The same attempt with fresh masks would give shares that are inconsistent with each other.
  if (rule_holds(Rule::attempts)) {
    if (state_.control.attempted(request.id))
      co_return fail(Errc::failed, "this attempt at eviction {} is over", request.id.eviction);
    S3O_CO_TRY(state_.control.attempt(request.id));
  }

  eviction_ = std::move(*eviction);
  auto result = co_await carry_out(*eviction_, request, std::move(writes));
  if (result) report_ = {request.id, eviction_->report()};
  eviction_.reset();
  eviction_over_.notify_all();
  // A peer's error must not look like this server's own answer to the client, nor like its own
  // trouble.
  if (!result) {
    const Errc code = result.error().code;
    const bool own =
        code == Errc::disk_full || code == Errc::servers_disagree || code == Errc::corrupt;
    co_return fail(own ? code : Errc::failed, "eviction {}: {}", request.id.eviction,
                   result.error().message);
  }
  co_return prepared_answer(request.id);
}

Bytes ServerEviction::prepared_answer(const EvictionId& id) const {
  if (report_.first != id || report_.second.empty()) return done();
  return encode(PrepareAnswer{report_.second});
}

Task<Status> ServerEviction::carry_out(Eviction& eviction, const PrepareRequest& request,
                                       BucketRows writes) {
  S3O_CO_TRY(co_await load_path(eviction, request, std::move(writes)));
  for (auto& [from, messages] : early_)
    for (auto& [id, early] : messages) {
      if (id != request.id) continue;
      const auto subshare = decode<SubshareRequest>(early.body());
      eviction.receive(from, *subshare, std::move(early));
    }
  forget_early(request.id);
  S3O_CO_ASSIGN(auto results, co_await eviction.run());
  auto made = state_.params().evictor == Evictor::matrix
                  ? matrix_versions(request, std::move(results))
                  : path_versions(request, std::move(results));

  std::vector<BucketIndex> buckets;
  for (const NewVersions::Write& each : made.writes) buckets.push_back(each.bucket);
  state_.record.versions(buckets);
  const auto begun = state_.sync->begin();
  Status status = co_await offload(state_.background, [&]() -> Status {
    for (auto& [bucket_version, bucket, content, stamp] : made.writes)
      S3O_TRY(
          state_.bucket_store->write(bucket_version, std::move(content), stamp, depth_of(bucket)));
    return {};
  });
  if (status && rule_holds(Rule::durable_prepare)) status = co_await state_.sync->sync(begun);
  if (status) status = state_.control.prepare(request.id, request.next_height, made.versions);
  for (const auto& write : made.writes) state_.control.numbers().give_back(write.bucket_version);
  co_return status;
}

// Two attempts at one eviction make different shares of the same content, so the stamp names the
// attempt.
// A mirror trusts any content that bears the right stamp, so its stamps also name the bucket of the
// attempt.
std::uint64_t ServerEviction::stamp_of(const EvictionId& id, std::size_t nth) const {
  std::uint64_t stamp = 0;
  std::memcpy(&stamp, id.attempt.data(), sizeof stamp);
  return state_.params().is_mirror() ? stamp + nth : stamp;
}

void ServerEviction::add_version(NewVersions& to, BucketIndex bucket,
                                 std::shared_ptr<BucketVersion> content) {
  const BucketVersionRef present = *state_.control.bucket(bucket, state_.control.tree_version());
  const bool in_place = !rule_holds(Rule::copy_on_write) && present.bucket_version != 0;
  const BucketVersionNumber bucket_version =
      in_place ? state_.control.numbers().use(present.bucket_version)
               : state_.control.numbers().allocate();
  const std::uint64_t stamp = stamp_of(to.id, to.writes.size());
  to.writes.push_back({bucket_version, bucket, std::move(content), stamp});
  to.versions.emplace_back(bucket,
                           BucketVersionRef{bucket_version, state_.params().bucket_size,
                                            state_.control.has_stamps() ? Stamp(stamp) : Stamp()});
}

ServerEviction::NewVersions ServerEviction::path_versions(const PrepareRequest& request,
                                                          BucketBuffers buffers) {
  NewVersions made{request.id, {}, {}};
  std::size_t at = 0;
  for (const BucketIndex bucket :
       path_buckets(state_.params(), request.id.eviction, request.height))
    add_version(made, bucket, std::move(buffers[at++]));
  return made;
}

// The content of a source bucket becomes that of its inner sibling; D_(H-1) is only a source. The
// buckets on the path above the leaf are empty afterwards.
ServerEviction::NewVersions ServerEviction::matrix_versions(const PrepareRequest& request,
                                                            BucketBuffers buffers) {
  const unsigned height = request.height;
  NewVersions made{request.id, {}, {}};
  const auto on_path = [&](unsigned level) { return bucket_on_path(request.id.eviction, level); };
  for (unsigned level = 1; level < height; ++level) {
    made.versions.emplace_back(on_path(level), BucketVersionRef{});
    add_version(made, sibling_of(on_path(level)), std::move(buffers[level - 1]));
  }
  add_version(made, on_path(height), std::move(buffers[height]));
  add_version(made, sibling_of(on_path(height)), std::move(buffers[height + 1]));
  return made;
}

Task<Status> ServerEviction::load_path(Eviction& eviction, const PrepareRequest& request,
                                       BucketRows writes) {
  std::vector<BucketIndex> indices =
      path_buckets(state_.params(), request.id.eviction, request.height);
  if (state_.params().evictor == Evictor::matrix) indices.push_back(sibling_of(indices.back()));
  std::vector<BucketVersionRef> refs;
  for (const BucketIndex bucket : indices) {
    S3O_CO_ASSIGN(auto ref, state_.control.bucket(bucket, state_.control.tree_version()));
    refs.push_back(eviction.reads_path() ? ref : BucketVersionRef{});
  }
  state_.record.eviction(PathSlots::evicted(state_.params(), request.id.eviction, request.height),
                         indices, refs);
  std::vector<Task<Result<std::shared_ptr<BucketVersion>>>> reads;
  for (const BucketVersionRef& ref : refs)
    reads.push_back(
        offload(state_.readers, [this, ref] { return state_.bucket_store->copy(ref); }));
  auto found = co_await all(std::move(reads));
  Status status;
  std::vector<PathBucket> path;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i]) {
      path.push_back({std::move(*found[i]), refs[i].slots});
    } else {
      state_.damaged.insert(indices[i]);
      status = fail(Errc::failed, "{}", found[i].error().message);  // our own error, not a peer's
    }
  }
  if (status) eviction.start_from(std::move(writes), std::move(path));
  co_return status;
}

// Reads the new versions from the file, because only what is in the file can be certified. Uses
// only data of the requested eviction: while this waits, a commit may end the eviction, and the
// tree may grow.
Task<Result<Bytes>> ServerEviction::certify(CertifyRequest request, Payload&) {
  if (state_.control.prepared() != request.id)
    co_return fail(Errc::failed, "eviction {} is not prepared", request.id.eviction);
  const auto path =
      PathSlots::evicted(state_.params(), request.id.eviction, state_.control.height());
  const auto checker = state_.scheme->check_rows(request.seed, path.count());
  if (!checker) co_return malformed();
  const auto buckets = path_buckets(state_.params(), request.id.eviction, state_.control.height());
  if (request.asked != RowsAsked::new_ones)
    S3O_CO_TRY(co_await check_old_rows(*checker, request.id.eviction, path, buckets));
  if (state_.control.prepared() != request.id)
    co_return fail(Errc::failed, "eviction {} is not prepared", request.id.eviction);
  S3O_CO_TRY(co_await check_new_rows(*checker, buckets));
  co_return encode(checker->answer(request.asked == RowsAsked::with_list));
}

Task<Status> ServerEviction::check_old_rows(RowChecker& checker, std::uint64_t tree_version,
                                            const PathSlots& path,
                                            const std::vector<BucketIndex>& buckets) {
  S3O_CO_ASSIGN(const auto writes, state_.root_buffer.rows(path));
  co_await offload(state_.background, [&] {
    for (std::size_t i = 0; i < writes.rows.size(); ++i) checker.add_old(i, writes.rows[i]);
  });
  std::vector<Task<Status>> work;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    S3O_CO_ASSIGN(const auto ref, state_.control.bucket(buckets[i], tree_version));
    const std::size_t first = path.writes() + i * state_.params().bucket_size;
    work.push_back(offload(state_.background, [&, ref, first, bucket = buckets[i]]() -> Status {
      if (ref.bucket_version == 0) return {};
      S3O_ASSIGN(const auto content, state_.bucket_store->read(ref, depth_of(bucket)));
      for (std::size_t slot = 0; slot < ref.slots; ++slot)
        checker.add_old(first + slot, content->slot(slot));
      return {};
    }));
  }
  auto ended = co_await all(std::move(work));
  Status status;
  for (std::size_t i = 0; i < ended.size(); ++i) {
    if (ended[i]) continue;
    state_.damaged.insert(buckets[i]);
    status = ended[i];
  }
  co_return status;
}

Task<Status> ServerEviction::check_new_rows(RowChecker& checker,
                                            const std::vector<BucketIndex>& buckets) {
  std::vector<Task<Status>> work;
  const BucketVersions versions =
      state_.control.prepared_versions();  // copied: they change during an await
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const auto version =
        std::ranges::find(versions, buckets[i], [](const auto& each) { return each.first; });
    if (version == versions.end()) co_return malformed();
    const std::size_t first = i * state_.params().bucket_size;
    work.push_back(offload(state_.background, [&, ref = version->second, first]() -> Status {
      S3O_ASSIGN(const auto content, state_.bucket_store->load(ref));
      for (std::size_t slot = 0; slot < ref.slots; ++slot)
        checker.add_new(first + slot, content->slot(slot));
      return {};
    }));
  }
  auto ended = co_await all(std::move(work));
  for (auto& status : ended) S3O_CO_TRY(status);
  co_return Status{};
}

Task<Result<Bytes>> ServerEviction::commit(CommitRequest request, Payload&) {
  if (state_.control.tree_version() == request.id.eviction + 1) co_return done();
  if (state_.control.prepared() != request.id)
    co_return fail(Errc::bad_request, "eviction {} is not prepared", request.id.eviction);
  S3O_CO_TRY(state_.control.commit());
  state_.changed.notify_all();  // requests that wait for an evicted write can stop waiting
  state_.metrics.evictions.add();
  state_.damaged.clear();
  early_.clear();
  co_return done();
}

Task<Result<Bytes>> ServerEviction::discard(DiscardRequest request, Payload&) {
  while (eviction_ && eviction_->id() == request.id) {
    eviction_->cancel({Errc::failed, "the client discards this attempt"});
    co_await eviction_over_.wait();
  }
  if (state_.control.prepared() == request.id) S3O_CO_TRY(state_.control.discard());
  // The attempt may also be installed, here and at too few other servers, if the client has lost
  // its own decision.
  S3O_CO_ASSIGN(const auto reverted, state_.control.revert(request.id));
  if (reverted) state_.damaged.clear();
  forget_freed();
  // The attempt's Prepare may still be on the way.
  if (request.id.eviction == state_.control.tree_version() && !state_.control.attempted(request.id))
    S3O_CO_TRY(state_.control.attempt(request.id));
  forget_early(request.id);
  co_return done();
}

// Waits for retrievals of the previous tree version, so that none of them, not even one that came
// twice, uses a bucket version that has been freed.
Task<Result<Bytes>> ServerEviction::release(ReleaseRequest request, Payload&) {
  co_await retrieval_.until_none_reads(request.id.eviction);
  if (state_.control.tree_version() == request.id.eviction + 1) state_.control.release();
  forget_freed();
  co_return done();
}

Result<Bytes> ServerEviction::subshare(Party from, Payload& request) {
  const auto message = decode<SubshareRequest>(request.body());
  if (!message) return malformed();
  S3O_TRY(state_.check_session(message->epoch));
  if (eviction_ && eviction_->id() == message->id) {
    eviction_->receive(from, *message, std::move(request));
  } else if (message->id.eviction >= state_.control.tree_version() &&
             state_.control.prepared() != message->id) {
    if (state_.control.attempted(message->id))
      return fail(Errc::failed, "server {} has given up this attempt", state_.self);
    // The peer got its Prepare before this server.
    auto& early = early_[from];
    std::size_t held = request.message.size();
    for (const auto& [id, other] : early) held += other.message.size();
    const auto path =
        PathSlots::evicted(state_.params(), state_.control.tree_version(), state_.control.height());
    if (early.size() >= kEarlySubshares ||
        held > kEarlyPaths * path.count() * state_.params().slot_size())
      return fail(Errc::bad_request, "too many subshares for an unknown eviction");
    early.emplace_back(message->id, std::move(request));
  }
  return done();
}

void ServerEviction::cancel(const Error& why) {
  if (eviction_) eviction_->cancel(why);
}

/// Drops bucket versions that are out of use from the cache, where those of the tree's top would
/// stay for long.
void ServerEviction::forget_freed() {
  for (const BucketVersionNumber bucket_version : state_.control.numbers().take_freed())
    state_.bucket_store->forget(bucket_version);
}

void ServerEviction::forget_early(const EvictionId& id) {
  for (auto& [from, messages] : early_)
    std::erase_if(messages, [&](const auto& message) { return message.first == id; });
}

}  // namespace s3oram
